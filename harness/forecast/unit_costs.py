"""Measured unit costs of operations, and the cost of a run by them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fairshares.harness.engines.emulated_network.profiles import Network
from fairshares.harness.errors import PlanError, ResultFileError, named_command
from fairshares.harness.forecast.operation_counts import Counts
from fairshares.harness.pipeline.manifests import sum_if_known
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.system.result_files import read_result
from fairshares.protocols.json_values import JsonObject

UNITS = "units.json"
RECORDED = Path(__file__).with_name("recorded_units")

ROUNDS, SENT_BYTES, MPC_S, COMPILE_S = "rounds", "sent_bytes", "mpc_s", "compile_s"
_MATERIAL = ("inputs", "input_bits", "ands", "dabits", "decomposed", "multiplications", "products")
# What each figure is a sum over, by engine. MP-SPDZ makes its material in batches, and each takes rounds.
FIGURES: dict[str, dict[str, tuple[str, ...]]] = {
    "mp-spdz": {
        ROUNDS: (
            *("run", "sum", "input", "steps", "input_batches", "ands", "and_batches", "dabit_batches"),
            *("multiplied", "multiplication_batches", "decomposed_batches"),
        ),
        SENT_BYTES: ("run", "sum", "summed", "input", "dabit_batches", "multiplication_batches", *_MATERIAL),
        MPC_S: (
            *("run", "sum", "summed", "rounds", "and_batches", "dabit_batches", "multiplication_batches"),
            *(name for name in _MATERIAL if name != "multiplications"),  # by the batch: one takes no time
        ),
        COMPILE_S: ("run", "sum", "steps", "gates", "input_bits", "added"),
    },
    "embedded": {
        SENT_BYTES: ("run", "sum", "summed", "input", "gates", *_MATERIAL),
        MPC_S: ("run", "sum", "summed", "gates", *_MATERIAL),
    },
}


@dataclass(frozen=True)
class Cost:
    """The cost of a run, over all parties; None for figures that were not measured."""

    mpc_s: float
    sent_bytes: float
    rounds: float | None
    compile_s: float | None = None


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Return the cost of runs in turn."""
    return Cost(
        sum(cost.mpc_s for cost in costs),
        sum(cost.sent_bytes for cost in costs),
        sum_if_known([cost.rounds for cost in costs]),
        sum_if_known([cost.compile_s for cost in costs]),
    )


@dataclass(frozen=True)
class ModelUnits:
    """The unit costs of one model, by figure and thing.

    `trips` are round-trip times per round, `link_share` the part of all bytes in the busiest direction of a
    link.
    """

    figures: Mapping[str, Mapping[str, float]]
    trips: float | None = None
    link_share: float | None = None


@dataclass(frozen=True)
class UnitCosts:
    """All models' unit costs, `measured` where and when."""

    models: Mapping[str, ModelUnits]
    measured: JsonObject

    def predict(self, model: SecurityModel, counts: Counts, network: Network | None = None) -> Cost:
        """Return the cost of a program with these counts, on one machine or on a network.

        Raises PlanError if the model, or a network, was not measured.
        """
        units = self.models.get(model.name)
        if units is None:
            raise PlanError(
                f"No unit costs of {model.name} are on file; {named_command('bench.run units')} measures "
                "them."
            )
        rounds = _total(units.figures[ROUNDS], amounts(counts)) if ROUNDS in units.figures else None
        things = amounts(counts, rounds or 0.0)
        sent = _total(units.figures[SENT_BYTES], things)
        seconds = _total(units.figures[MPC_S], things)
        if network is not None:
            if units.trips is None or units.link_share is None:
                raise PlanError(f"No unit costs of {model.name} on a network are on file.")
            seconds += waiting_rounds(counts, rounds) * units.trips * network.rtt_s
            seconds += sent * units.link_share * 8 / network.bandwidth_bits_per_s
        compiling: float | None = 0.0
        if COMPILE_S in FIGURES[model.engine]:
            compiling = _total(units.figures[COMPILE_S], things) if COMPILE_S in units.figures else None
        return Cost(seconds, sent, rounds, compiling)


def waiting_rounds(counts: Counts, rounds: float | None) -> float:
    """Return the rounds of waiting: measured ones, or the program's own."""
    return counts.rounds if rounds is None else rounds


def amounts(counts: Counts, rounds: float = 0.0) -> dict[str, float]:
    """Return the amounts of all things that cost."""
    batch = counts.batch or 10_000  # MP-SPDZ's, where we choose none
    multiplied = counts.multiplications + counts.products

    def batches(count: int) -> int:
        return math.ceil(count / batch)

    joint = counts.ands > 0  # with distributed noise there are no bits, and all steps are in `sum`
    return {
        "run": joint,
        "sum": not joint,
        "summed": 0 if joint else counts.inputs,
        "input": counts.inputs > 0,
        "steps": counts.rounds if joint else 0,
        "rounds": rounds,
        "gates": counts.gates,
        **{name: getattr(counts, name) for name in _MATERIAL},
        "inputs": counts.inputs if joint else 0,
        "input_batches": batches(counts.inputs),
        "and_batches": counts.ands / batch,
        "dabit_batches": max(0, batches(counts.dabits) - 1),  # the first is part of every run
        "multiplied": multiplied > 0,
        "multiplication_batches": batches(multiplied),
        "added": counts.added,
        "decomposed_batches": batches(counts.decomposed),
    }


def read_units(directory: Path) -> UnitCosts:
    """Read the output of `bench.run units`; ResultFileError without one."""
    import msgspec

    fields = read_result(directory, UNITS)
    try:
        stated = msgspec.convert(
            fields["models"],
            dict[str, dict[str, dict[str, Annotated[float, msgspec.Meta(ge=0)]] | None]],
        )
        models = {name: _model_units(MODELS[name], units) for name, units in stated.items()}
        measured = fields["measured"]
        if not isinstance(measured, dict):
            raise TypeError
        return UnitCosts(models, measured)
    except (KeyError, TypeError, ValueError, msgspec.ValidationError):
        raise ResultFileError(
            f"{directory / UNITS} does not hold unit costs; measure them anew with "
            f"{named_command('bench.run units')}."
        ) from None


def _model_units(model: SecurityModel, fields: dict[str, dict[str, float] | None]) -> ModelUnits:
    network = fields.pop("network")
    known = FIGURES[model.engine]
    if {*fields, COMPILE_S} != {*known, COMPILE_S}:  # which is measured where programs were compiled
        raise ValueError
    figures = {figure: costs for figure, costs in fields.items() if costs is not None}
    if len(figures) < len(fields):
        raise ValueError
    if any(set(costs) - set(known[figure]) for figure, costs in figures.items()):
        raise ValueError
    if network is None:
        return ModelUnits(figures)
    return ModelUnits(figures, network["round_trips_per_round"], network["link_share"])


def _total(units: Mapping[str, float], things: Mapping[str, float]) -> float:
    return sum(cost * things[name] for name, cost in units.items())
