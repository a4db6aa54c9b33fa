"""Measured unit costs of operations, and the cost of a run by them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fairshares.harness.errors import OptionError, PlanError, ResultFileError, named, named_command
from fairshares.harness.forecast.operation_counts import Counts
from fairshares.harness.pipeline.manifest_of_run import sum_if_known
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.security_models import SecurityModel, model_titled
from fairshares.harness.system.result_files import read_result
from fairshares.protocols.json_values import JsonObject

UNITS = "units.json"
RECORDED = Path(__file__).with_name("recorded_units")

ROUNDS = "rounds"
SENT_BYTES = "sent_bytes"
MPC_S = "mpc_s"
COMPILE_S = "compile_s"
_MATERIAL = ("inputs", "input_bits", "ands", "dabits", "decomposed", "multiplications", "products")
_MATERIAL_THAT_TAKES_TIME = tuple(name for name in _MATERIAL if name != "multiplications")
"""MP-SPDZ's multiplications take time by the batch alone."""

# The things that each figure is a sum over, by engine. MP-SPDZ makes its material in batches, and each batch
# takes rounds.
_OF_MPSPDZ: dict[str, tuple[str, ...]] = {
    ROUNDS: (
        "run",
        "sum",
        "input",
        "steps",
        "input_batches",
        "ands",
        "and_batches",
        "dabit_batches",
        "multiplied",
        "multiplication_batches",
        "decomposed_batches",
    ),
    SENT_BYTES: ("run", "sum", "summed", "input", "dabit_batches", "multiplication_batches", *_MATERIAL),
    MPC_S: (
        "run",
        "sum",
        "summed",
        "rounds",
        "and_batches",
        "dabit_batches",
        "multiplication_batches",
        *_MATERIAL_THAT_TAKES_TIME,
    ),
    COMPILE_S: ("run", "sum", "steps", "gates", "input_bits", "added"),
}
_OF_EMBEDDED: dict[str, tuple[str, ...]] = {
    SENT_BYTES: ("run", "sum", "summed", "input", "gates", *_MATERIAL),
    MPC_S: ("run", "sum", "summed", "gates", *_MATERIAL),
}
FIGURES = {"mp-spdz": _OF_MPSPDZ, "embedded": _OF_EMBEDDED}


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

    Attributes:
        trips: The round-trip times that a round takes.
        link_share: The part of all bytes that the busiest direction of a link carries.
    """

    figures: Mapping[str, Mapping[str, float]]
    trips: float | None = None
    link_share: float | None = None


@dataclass(frozen=True)
class UnitCosts:
    """All models' unit costs by the models' titles, `measured` where and when."""

    models: Mapping[str, ModelUnits]
    measured: JsonObject

    def predict(self, model: SecurityModel, counts: Counts, network: NetworkProfile | None = None) -> Cost:
        """Return the cost of a program with these counts, on one machine or on a network.

        Raises PlanError if the model, or a network, was not measured.
        """
        units = self.models.get(model.title)
        if units is None and model.stated_parties is not None:
            raise PlanError(
                f"No unit costs of {model.title} are on file, as only usual numbers of parties were measured."
            )
        if units is None:
            raise PlanError(
                f"No unit costs of {model.title} are on file; {named_command('bench.run units')} with "
                f"{named('security', model.name)} measures them."
            )
        rounds: float | None = None
        if ROUNDS in units.figures:
            rounds = _total(units.figures[ROUNDS], amounts(counts))
        things = amounts(counts, rounds or 0.0)
        sent = _total(units.figures[SENT_BYTES], things)
        seconds = _total(units.figures[MPC_S], things)
        if network is not None:
            if units.trips is None or units.link_share is None:
                raise PlanError(f"No unit costs of {model.title} on a network are on file.")
            seconds += waiting_rounds(counts, rounds) * units.trips * network.rtt_s
            seconds += sent * units.link_share * 8 / network.bandwidth_bits_per_s
        compiling: float | None = None
        if COMPILE_S not in FIGURES[model.engine]:  # this engine compiles nothing
            compiling = 0.0
        elif COMPILE_S in units.figures:
            compiling = _total(units.figures[COMPILE_S], things)
        return Cost(seconds, sent, rounds, compiling)


def waiting_rounds(counts: Counts, rounds: float | None) -> float:
    """Return the rounds of waiting: measured ones, or the program's own."""
    return counts.rounds if rounds is None else rounds


def amounts(counts: Counts, rounds: float = 0.0) -> dict[str, float]:
    """Return the amount of each thing that costs; a thing that is there or not has the amount 1 or 0."""
    batch = counts.batch or 10_000  # MP-SPDZ's, where we choose none
    multiplied = counts.multiplications + counts.products
    joint = counts.ands > 0  # with distributed noise there are no bits, and all steps are in `sum`
    return {
        "run": 1 if joint else 0,
        "sum": 0 if joint else 1,
        "summed": 0 if joint else counts.inputs,
        "input": 1 if counts.inputs > 0 else 0,
        "steps": counts.rounds if joint else 0,
        "rounds": rounds,
        "gates": counts.gates,
        "inputs": counts.inputs if joint else 0,
        "input_bits": counts.input_bits,
        "ands": counts.ands,
        "dabits": counts.dabits,
        "decomposed": counts.decomposed,
        "multiplications": counts.multiplications,
        "products": counts.products,
        "input_batches": math.ceil(counts.inputs / batch),
        "and_batches": counts.ands / batch,
        "dabit_batches": max(0, math.ceil(counts.dabits / batch) - 1),  # the first is part of every run
        "multiplied": 1 if multiplied > 0 else 0,
        "multiplication_batches": math.ceil(multiplied / batch),
        "added": counts.added,
        "decomposed_batches": math.ceil(counts.decomposed / batch),
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
        models = {title: _model_units(model_titled(title), units) for title, units in stated.items()}
        measured = fields["measured"]
        if not isinstance(measured, dict):
            raise TypeError
        return UnitCosts(models, measured)
    except (KeyError, OptionError, TypeError, ValueError, msgspec.ValidationError):
        raise ResultFileError(
            f"{directory / UNITS} does not hold unit costs; measure them anew with "
            f"{named_command('bench.run units')}."
        ) from None


def _model_units(model: SecurityModel, fields: dict[str, dict[str, float] | None]) -> ModelUnits:
    network = fields.pop("network")
    known = FIGURES[model.engine]
    # The time to compile was measured only where programs were compiled.
    if fields.keys() - {COMPILE_S} != known.keys() - {COMPILE_S}:
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
