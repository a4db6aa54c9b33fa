"""The facts that a party's process is told: `party.json` in its directory.

`Engine.setup` makes it, `handle.LocalParty` writes it, and `main` reads it. It holds no secret.
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fairshares.harness.bounds import Address, Port, Size
from fairshares.harness.engines.parties.layouts import (
    NoShares,
    OwnNoise,
    RingName,
    ShareLayout,
    as_signed_words,
)
from fairshares.harness.engines.parties.working_directory import CONFIG
from fairshares.harness.errors import PartyConfigError
from fairshares.harness.numbers_of_parties import MOST_PARTIES
from fairshares.harness.online.gateway_config import GatewayConfig

PartyNumber = Annotated[int, Meta(ge=0, lt=MOST_PARTIES)]
Block = tuple[Annotated[int, Meta(ge=1, le=64)], Size]
"""Width and lanes of a block of fair bits: so many integers, each of so many bits."""


class VirtualMachine(Struct, frozen=True, kw_only=True, tag="machine", forbid_unknown_fields=True):
    """A virtual machine of MP-SPDZ, which the party's process becomes.

    Attributes:
        argv: The program and its arguments.
        environment: Variables besides the party's own.
        reads_words_of: The ring of the values that it reads as signed words (`Ring.signed_words`); None if it
            reads elements as they are.
    """

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    environment: dict[str, str] = {}
    reads_words_of: RingName | None = None

    @property
    def reads_elements(self) -> bool:
        """Whether it reads values as they lie in a party's file."""
        return self.reads_words_of is None

    def as_read(self, column: bytes) -> bytes:
        """Return a column of elements as the machine reads them."""
        if self.reads_words_of is None:
            return column
        return as_signed_words(self.reads_words_of, column)


class Embedded(Struct, frozen=True, kw_only=True, tag="embedded", forbid_unknown_fields=True):
    """The embedded engine, which runs in the party's process.

    Attributes:
        program: The file of the program.
        arguments: The program's name and arguments.
        threshold: How many parties may collude.
        security_bits: The statistical security of masks of compared integers.
    """

    program: str
    arguments: tuple[str, ...]
    threshold: PartyNumber
    security_bits: Annotated[int, Meta(ge=1, le=128)]

    @property
    def reads_elements(self) -> bool:
        """Whether it reads values as they lie in a party's file: always."""
        return True

    def as_read(self, column: bytes) -> bytes:
        """Return a column as it is."""
        return column


PartyEngine: TypeAlias = VirtualMachine | Embedded


class RoundsOfColumns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A party that gets a column of values for each round, on its standard input.

    Attributes:
        number: The number of rounds.
        column_bytes: The bytes of a column.
    """

    number: Size
    column_bytes: Size


class PartyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a party's process is told before it waits for the other parties.

    Attributes:
        party: The party's number.
        common_names: The name in each party's certificate.
        engine: The engine that computes.
        addresses: The addresses at which each party finds the parties; this party listens at its own.
        fair_bits: The fair bits that the party draws as it starts, or for each round.
        shares: How the party's shares of clients' values lie in files.
        own_noise: How the party's own noise enters its input; None without such noise.
        rounds: The columns that it gets while it runs, None for a single run.
        gateway: The ports and limits of the gateway through which clients reach the party; None if no clients
            do.
        reads: Files and directories that the engine reads, besides Python's.
        packages: Packages of Python that nothing but a party's process imports.
        listens: Further ports at which the party listens.
        keeps_printed: Whether its virtual machine's standard output goes to a file of its own.
        most_file_bytes: The most bytes of a file that its process writes, None without a limit.
    """

    party: PartyNumber
    common_names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_PARTIES)]
    engine: PartyEngine
    addresses: Annotated[tuple[Address, ...], Meta(max_length=MOST_PARTIES)] = ()
    fair_bits: tuple[Block, ...] = ()
    shares: ShareLayout = NoShares()
    own_noise: OwnNoise | None = None
    rounds: RoundsOfColumns | None = None
    gateway: GatewayConfig | None = None
    reads: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    listens: tuple[Port, ...] = ()
    keeps_printed: bool = False
    most_file_bytes: Size | None = None


def write_config(config: PartyConfig, directory: Path) -> None:
    """Write a party's configuration into its directory."""
    (directory / CONFIG).write_bytes(msgspec.json.encode(config))


def read_config() -> PartyConfig:
    """Return the configuration of the current directory.

    Raises PartyConfigError if a field is missing, unknown, or out of bounds.
    """
    try:
        config = msgspec.json.decode(Path(CONFIG).read_bytes(), type=PartyConfig)
    except msgspec.DecodeError as error:
        raise PartyConfigError(
            f"The file {CONFIG} of this party is not as this version writes it: {error}; start the run anew."
        ) from None
    if config.party >= len(config.common_names):
        raise PartyConfigError(
            f"The file {CONFIG} is of party {config.party}, and names {len(config.common_names)} parties; "
            "start the run anew."
        )
    return config
