"""Starts parties that get numbers in place of those that they would draw."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import given_party
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.security_models import SecurityModel

Given = Sequence[Sequence[int]]
"""The numbers of each party."""


class GivenParty(LocalParty):
    """A party on this machine with numbers of its own in its directory."""

    def __init__(self, numbers: Sequence[int], setup: PartySetup, directory: Path) -> None:
        super().__init__(setup, directory)
        (directory / given_party.GIVEN).write_text("".join(f"{number}\n" for number in numbers))

    def _module(self) -> str:
        return given_party.__name__


def engine_giving(model: SecurityModel, given: Given | None) -> Engine:
    """Return the model's engine, whose parties get these numbers; the production engine without any."""
    if given is None:
        return engine_of(model)

    def lay_out(setup: PartySetup, directory: Path) -> LocalParty:
        return GivenParty(given[setup.config.party], setup, directory)

    return type(engine_of(model))(lay_out)
