"""Sentences that a client reads before it sends: the run's terms, and the parties to which it sends."""

from collections.abc import Iterator, Sequence

from fairshares.harness.errors import named
from fairshares.harness.online.session import Server
from fairshares.harness.privacy.statement import DISTRIBUTED_SENTENCE, MADE_AHEAD, SHIFTED, who_learns_nothing
from fairshares.harness.request.request import Request
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.circuits.clients import CHECKS

_CHANGES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record of yours added or removed",
    NeighboringRelation.REPLACE_ONE: "one record of yours replaced by another",
    NeighboringRelation.ZERO_OUT_ONE: "all records of yours together, there or not",
}


def terms(request: Request, attempts: int = 0) -> Iterator[str]:
    """Say what a run reveals, with which guarantee, and who could see more.

    Args:
        request: The run's request, as its terms have it.
        attempts: How often making its noise ahead was begun; 0 if parties make it in the run.
    """
    model = request.model
    distribution = request.randomness.distribution
    protect = request.protect
    relation = protect.neighboring_relation
    assert relation is not None  # else the terms would have been refused
    learns = who_learns_nothing(model, distribution is not None)
    if model.tolerates == "active":
        learns += f", or changes a value unnoticed, but for a probability of 2^-{CHECKS} each"
    yield (
        f"The run reveals: {'; '.join(request.spec.revealed)}. Guarantee: (ε, δ)-differential privacy with ε "
        f"= {digits_up(protect.epsilon, 4)} and δ = {digits_up(protect.delta, 4)} in total, for "
        f"{_CHANGES[relation]}."
    )
    yield (
        f"Computation: {model.parties} parties, model {model.name}: {learns}. Whoever runs more than "
        f"{model.corruptions} of them can see your values."
    )
    if distribution:
        yield DISTRIBUTED_SENTENCE.format(
            distribution=distribution,
            honest_parties=model.parties - model.corruptions,
            parties=model.parties,
            shifted=SHIFTED,
        )
    if attempts:
        yield (
            f"{MADE_AHEAD} Making it was begun {attempts} times, each of which could fail unnoticed as the "
            f"run can: the engine's chance to fail counts {attempts + 1} times."
        )
    if model.replicated:
        yield (
            "What you send is with the parties while they run only. Values that were shared before, by "
            f"share {named('input_path', 'replicated')}, any {model.corruptions + 1} of them can read "
            "together while they wait."
        )


def parties(servers: Sequence[Server], certificates: Sequence[str]) -> Iterator[str]:
    """Name each party's server, and the SHA-256 of its certificate."""
    for party, (server, sha256) in enumerate(zip(servers, certificates, strict=True)):
        yield f"Party {party}: {server.host}:{server.port}, SHA-256 of its certificate {sha256}."
