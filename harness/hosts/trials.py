"""Benchmark runs that a coordinator asks hosts for, without charge or signature.

A host answers where its owner's policy allows it, whether or not it has this project's benchmarks. Each host
makes its inputs itself, so that no record can be in such a run.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from fairshares.harness.bounds import NumberOfParties, Size
from fairshares.harness.engines.compiled import MOST_INTEGERS, CompiledProgram
from fairshares.harness.engines.execution import PROJECT, Job, MadeUpJob
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import HostUnfitError, OptionError, UnsupportedError
from fairshares.harness.inputs.encoding import columns_of, count_columns, is_per_record, shared_over
from fairshares.harness.inputs.federation_size import MOST_MADE_UP, FederationSize
from fairshares.harness.inputs.shares import copies_of, held_by
from fairshares.harness.online.session import MAX_CONNECTIONS, ClientInputs, Upload
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.noise_samples import noise_job
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.pipeline.sources import PartyInputs, SentInputs, request_of_run
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.noise_samples import joint_sampler
from fairshares.harness.request.request import Request
from fairshares.harness.request.wire_form import RequestTexts
from fairshares.harness.security_models import SecurityModel, get_model, title_of
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.spec import CLIENTS, NO_INPUT, InputForm, ProtocolSpec

ModelName = Annotated[str, Meta(max_length=64)]
"""The name of a security model."""

CloneProgramName = Annotated[str, Meta(pattern=r"^[a-z][a-z_]{0,63}\Z")]
"""The name of a program in `CLONE_PROGRAMS`, without its ending."""

ArgumentName = Annotated[str, Meta(pattern=r"^[a-z][a-z_]{0,31}\Z")]

ArgumentText = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9./-]{0,31}\Z")]
"""The text of an argument, which no compiler takes for an option."""

BitWidth = Annotated[int, Meta(ge=1, le=64)]
"""The number of random bits of a word."""

BitLanes = Annotated[int, Meta(ge=1, le=10 * MOST_MADE_UP)]
"""How many words of random bits a party draws at once."""

CLONE_PROGRAMS = PROJECT / "benchmarks" / "literal"
"""The programs for benchmarks that make their records up, in a clone of this project."""

SEED = 20_220_523  # arbitrary; fixed so that all runs of a comparison have the same clients and integers

TERMS: dict[str, JsonValue] = {"task": "benchmark"}
"""What clients that send in a benchmark are told. Whoever has something to protect refuses these terms."""


class _TrialOfModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A trial by the parties of a model.

    Attributes:
        security: The model's name.
        parties: The number of parties; None for the model's usual number.
    """

    security: ModelName
    parties: NumberOfParties | None = None

    @property
    def title(self) -> str:
        """The model's title, by which a host's policy allows it."""
        return title_of(self.security, self.parties)

    @property
    def model(self) -> SecurityModel:
        """The model whose parties run it."""
        return get_model(self.security, self.parties)

    @property
    def foreign_program(self) -> str | None:
        """The digest of a program of the coordinator's own; None for what every host has."""
        return None


class ReleaseTrial(_TrialOfModel, tag="release", frozen=True, kw_only=True):
    """A trial of a release, on records that each host makes up.

    Attributes:
        asked: The release.
        federation: How many records there are, and of what.
    """

    asked: RequestTexts
    federation: FederationSize

    @property
    def clients_send(self) -> bool:
        """Whether clients send the records. Raises OptionError or HostUnfitError."""
        return self._release().form.path is CLIENTS

    def job(self) -> Job:
        """Return every party's job, of a release to which no clients send.

        Raises OptionError, UnsupportedError, or HostUnfitError.
        """
        release = self._release()
        return self._job(release, inputs_of_size(self.federation, release.form))

    def sent(self, certificates: Sequence[str]) -> "SentTrial":
        """Return every party's job, of a release to which clients with these certificates (PEM) send.

        Raises OptionError, UnsupportedError, or HostUnfitError.
        """
        release = self._release()
        inputs = sent_of_size(self.federation, release.form, certificates)
        return SentTrial(self._job(release, inputs), inputs.values)

    def _job(self, release: Request, inputs: PartyInputs) -> Job:
        """Return every party's job on some inputs."""
        statistic = statistic_of(release)
        RunSettings(release).check_supported(statistic.spec)
        return make_job(statistic.prepare(release, self.federation.domain), inputs)

    def values(self, party: int) -> bytes:
        """Return a party's input to a release to which no clients send.

        Raises OptionError or HostUnfitError.
        """
        return made_up_values(self.federation, self._release().form, self.model, party)

    def _release(self) -> Request:
        """Return the release, or raise OptionError or HostUnfitError if it is none that runs here."""
        unknown = HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        if self.asked.get("security") != self.security:
            raise unknown
        if not self.federation.is_possible:
            raise HostUnfitError(
                f"It was asked for a benchmark run on nobody, or on more than {MOST_MADE_UP:,}."
            )
        release = request_of_run(self.asked)
        if release.model != self.model:
            raise unknown
        return release


@dataclass(frozen=True)
class SentTrial:
    """Every party's job of a trial to which clients send.

    Attributes:
        job: The job.
        sending: The clients.
    """

    job: Job
    sending: ClientInputs


class NoiseTrial(_TrialOfModel, tag="noise", frozen=True, kw_only=True):
    """A trial of the joint noise, of which the parties open samples.

    Attributes:
        guarantee: The ε and δ that a sample costs, both above 0.
        samples: The number of samples.
    """

    guarantee: Guarantee
    samples: Size

    def job(self) -> Job:
        """Return every party's job. Raises OptionError or HostUnfitError."""
        if not 0 < self.samples <= MOST_MADE_UP:
            raise HostUnfitError(f"It was asked for no samples of noise, or for more than {MOST_MADE_UP:,}.")
        if min(self.guarantee.epsilon, self.guarantee.delta) <= 0:
            raise OptionError("It was asked for noise of no epsilon or delta.")
        sampler = joint_sampler(self.guarantee.epsilon, self.guarantee.delta)
        return noise_job(sampler, self.samples, self.model)

    def values(self, party: int) -> None:  # noqa: ARG002
        """Return None: no party has an input."""
        return


class ProgramArgument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An argument of a program: its name, by which the project knows it, and its text."""

    name: ArgumentName
    text: ArgumentText


class CloneTrial(_TrialOfModel, tag="clone", frozen=True, kw_only=True):
    """A trial of a program for benchmarks that hosts have in their clones, on records that it makes up.

    Each host compiles its own text of the program. An installed package has no such programs.

    Attributes:
        program: The program's name.
        arguments: The program's arguments, in order.
        fair_bits: The width and the lanes of each block of random bits that every party draws as it starts.
        compares_all: Whether the program compares values of all records at once.
    """

    program: CloneProgramName
    arguments: Annotated[tuple[ProgramArgument, ...], Meta(max_length=32)]
    fair_bits: Annotated[tuple[tuple[BitWidth, BitLanes], ...], Meta(max_length=8)] = ()
    compares_all: bool = False

    @property
    def spec(self) -> ProtocolSpec:
        """The facts about the program on which its compilation and its machine depend."""
        return ProtocolSpec(
            name=self.program,
            source="a program for benchmarks",
            arguments=tuple(argument.name for argument in self.arguments),
            input_forms={NO_INPUT.name: NO_INPUT},
            outputs=(),
            revealed=("what it computes of records that it makes up, to all parties",),
            portable=False,
            uses_edabits=self.compares_all,
            records_at_once=self.compares_all,
            made_up=True,
        )

    def job(self) -> Job:
        """Return every party's job.

        Raises HostUnfitError for a number that is too large, or UnsupportedError where this host has no such
        program or its model runs none.
        """
        spec = self.spec
        reason = engine_of(self.model).refusal(spec, self.model, NO_INPUT)
        if reason is not None:
            raise UnsupportedError(reason)
        texts = tuple(argument.text for argument in self.arguments)
        if any(text.isdigit() and int(text) > MOST_MADE_UP for text in texts):
            raise HostUnfitError(
                f"It was asked for a benchmark run on nobody, or on more than {MOST_MADE_UP:,}."
            )
        source = CLONE_PROGRAMS / f"{self.program}.mpc"
        if not source.is_file():
            raise UnsupportedError(
                f"There is no program {source.name} in {CLONE_PROGRAMS}; take a clone of FairShares, as an "
                "installed package has no programs for benchmarks."
            )
        return MadeUpJob(spec, source, texts, fair_bits=self.fair_bits)

    def values(self, party: int) -> None:  # noqa: ARG002
        """Return None, as no party has an input; raise as `job`, so that nothing is begun in vain."""
        self.job()


class ProgramTrial(_TrialOfModel, tag="program", frozen=True, kw_only=True):
    """A trial of a program of the coordinator's own, on public integers that each host makes.

    The owner allows it by its digest. Its files follow in messages of their own.

    Attributes:
        compiled_by: The version of MP-SPDZ that compiled it.
        program: The program's files, and the options of its machine.
        integers: The number of integers that each party reads.
    """

    compiled_by: Annotated[str, Meta(max_length=100)]
    program: CompiledProgram
    integers: Annotated[int, Meta(ge=0, le=MOST_INTEGERS)] = 0

    @property
    def foreign_program(self) -> str:
        return self.program.digest(self.model)

    def values(self, party: int) -> bytes | None:
        """Return the integers that a party reads, a line each, or None if it reads none.

        Raises HostUnfitError if the model has no such party.
        """
        if not 0 <= party < self.model.parties:
            raise HostUnfitError("It was asked for a run of other parties than its model has.")
        if not self.integers:
            return None
        integers = public_integers(party + 1, self.integers)[party]
        return "".join(f"{integer}\n" for integer in integers).encode()


KnownTrial = ReleaseTrial | NoiseTrial | CloneTrial
"""A trial of what every host has itself."""

Trial = KnownTrial | ProgramTrial
"""What a benchmark run measures."""


def public_integers(parties: int, each: int) -> tuple[tuple[int, ...], ...]:
    """Return each party's input to any program: integers below 2^16, the same in every run."""
    drawn = random.Random(SEED)
    inputs = []
    for _ in range(parties):
        integers = [drawn.randrange(1 << 16) for _ in range(each)]
        inputs.append(tuple(integers))
    return tuple(inputs)


def inputs_of_size(federation: FederationSize, form: InputForm) -> PartyInputs:
    """Return the public facts about made-up records of a size, which nobody has shared yet.

    [test: tests/commands/test_bench_measured.py]
    """
    return PartyInputs(
        domain=federation.domain,
        clients=federation.clients,
        uploads=1,
        rows=_rows_of_size(federation, form),
    )


def sent_of_size(federation: FederationSize, form: InputForm, certificates: Sequence[str]) -> SentInputs:
    """Return the facts about made-up records of a size that clients with these certificates (PEM) send.

    Raises HostUnfitError if there are more or fewer certificates than connections.
    """
    sizes = sent_sizes(federation, form)
    if len(certificates) != len(sizes):
        raise HostUnfitError(
            f"It was told of {len(certificates)} clients that send in a benchmark run of {len(sizes)}."
        )
    uploads = tuple(Upload(size, certificate) for size, certificate in zip(sizes, certificates, strict=True))
    return SentInputs(
        domain=federation.domain,
        clients=federation.clients,
        uploads=1,
        rows=_rows_of_size(federation, form),
        values=ClientInputs(uploads, TERMS),
    )


def sent_sizes(federation: FederationSize, form: InputForm) -> list[int]:
    """Return how many values clients send through each connection, of made-up records of a size."""
    rows = _rows_of_size(federation, form)
    columns = count_columns(federation.domain, form.name)
    if rows > MAX_CONNECTIONS:
        return [columns * rows]  # all through a single connection
    return [columns] * rows


def _rows_of_size(federation: FederationSize, form: InputForm) -> int:
    """Return the number of rows of values that clients send or share."""
    if is_per_record(federation.domain, form.name):
        return federation.records
    return federation.clients


def made_up_values(size: FederationSize, form: InputForm, model: SecurityModel, party: int) -> bytes:
    """Return a party's input to a benchmark run, as long as its shares of as many records.

    Share 0 has all values, and the others are 0.
    [test: tests/harness/hosts/test_trials.py]
    """
    ring = shared_over(form, model.ring)
    values = ring.encode(columns_of(size.even_records(), form))
    if form.summed_by_party:
        values = ring.total(values)
    held: list[bytes] = []
    for number in held_by(party, model.parties, copies_of(form, model.parties)):
        held.append(ring.to_bytes(values) if number == 0 else bytes(values.nbytes))
    return b"".join(held)
