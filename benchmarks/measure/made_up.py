"""Inputs of measured runs, made up: synthetic records at hosts, and public integers of any program."""

import random
from dataclasses import dataclass

from fairshares.harness.inputs.synthetic import SEED, Federation
from fairshares.harness.pipeline.sources import (
    BENCHMARK_TERMS,
    PartyInputs,
    RecordsSource,
    RunContext,
    Source,
    synthetic_inputs,
)
from fairshares.harness.privacy.stock import Piece
from fairshares.protocols.spec import CLIENTS


@dataclass(frozen=True)
class SyntheticSource(Source):
    """Synthetic records; clients that send run in this process."""

    federation: Federation

    def describe(self, run: RunContext) -> PartyInputs:
        return synthetic_inputs(self.federation, run.release.form, run.release.model)

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:
        if run.release.form.path is not CLIENTS:
            return described
        return RecordsSource(self.federation.made_up(), BENCHMARK_TERMS).deliver(run, described, piece)


def public_integers(parties: int, each: int) -> tuple[tuple[int, ...], ...]:
    """Return each party's input to any program: integers below 2^16."""
    rng = random.Random(SEED)
    inputs = []
    for _ in range(parties):
        integers = [rng.randrange(1 << 16) for _ in range(each)]
        inputs.append(tuple(integers))
    return tuple(inputs)
