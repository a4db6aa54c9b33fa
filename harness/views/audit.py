"""Audits: protection by noise and releases, with the claims."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairshares.harness.privacy.audit.samplers import DELTAS, Audited, Figure
from fairshares.harness.views.parts import Findings, Part, Stacked, Table
from fairshares.harness.views.rendering.plots import deltas
from fairshares.protocols.accounting.rounding import digits_up, exact_text
from fairshares.protocols.circuits.coins import exp_bounds


def audit(audits: Sequence[Audited]) -> Iterator[Part]:
    """Show each kind of audited item, and whether claims hold.

    What an item is follows from its figures: those of noise have a largest value, those of a release the
    number of values that move, and those of a local mechanism the ε that is claimed for it.
    """
    noise = [audited for audited in audits if "largest_noise" in audited.figures]
    releases = [audited for audited in audits if "values_moved" in audited.figures]
    local = [audited for audited in audits if "epsilon_claimed" in audited.figures]
    with_curve = [audited for audited in audits if audited.curve and audited.drawn]
    curves_of_noise = [audited for audited in with_curve if "values_moved" not in audited.figures]
    pictured = curves_of_noise or with_curve  # releases' curves only if there are no others
    if pictured:
        curves = {}
        for audited in pictured:
            name = f"{audited.name}, ε = {exact_text(audited.requested.epsilon)}"
            curves[name] = (audited.requested.epsilon, _CurveOf(audited).delta)
        yield deltas(
            "delta",
            curves,
            "What the noise gives away: δ at each ε, exactly. Dots: the ε that it was asked for.",
        )
    if noise:
        yield from _noise(noise)
    yield from dict.fromkeys(audited.note for audited in audits if audited.note)  # each sentence once
    if releases:
        yield _releases(releases)
    if local:
        yield _local(local)
    ours = [audited for audited in audits if audited.claimed]
    faults = [f"{audited.name}: {audited.fault}." for audited in ours if audited.fault]
    if ours and not faults:
        holds = "All that is claimed for this project's noise and releases holds, by this second derivation."
        yield Findings([holds])
        yield holds
    yield Findings(faults)


@dataclass(frozen=True)
class _CurveOf:
    """The curve of an audited item that has one."""

    audited: Audited

    def delta(self, epsilon: Fraction) -> float:
        """Return δ at ε, rounded up, as its argument e^ε is rounded down."""
        assert self.audited.curve is not None
        least_exp, _ = exp_bounds(epsilon)
        return float(self.audited.curve.delta(least_exp))


def _noise(audits: Sequence[Audited]) -> Iterator[Part]:
    columns = [
        "noise on one count",
        "ε",
        "δ at ε",
        "δ, any ε",
        "ε at 10⁻⁶",
        "at 10⁻⁹",
        "at 2⁻⁴⁰",
        "max",
        "RMSE",
        "ANDs, bits",
    ]
    yield Table(
        columns,
        [
            [audited.name, exact_text(audited.requested.epsilon), *_of_noise(audited.figures)]
            for audited in audits
        ],
        caption="δ, any ε: the δ that remains however large ε is. ε at: the least with this δ, ∞ if none "
        "has it. max: largest noise. ANDs, bits: of one sample. All is exact; what is shown of ε "
        "and δ is rounded up.",
        if_wide=["at 10⁻⁹", "at 2⁻⁴⁰", "ANDs, bits"],
    )


def _of_noise(figures: Mapping[str, Figure]) -> list[str]:
    """Return the row of noise in its table, from the third column on."""
    square = figures["mean_square_error"]
    assert square is not None
    epsilons = [_short(figures[f"epsilon_at_{delta}"]) for delta in DELTAS]
    return [
        _short(figures["delta"], 3),
        _short(Fraction(str(figures["delta_at_every_epsilon"])), 3),
        *epsilons,
        _short(figures["largest_noise"]),
        f"{math.sqrt(Fraction(square)):.2f}",
        f"{figures['ands']}, {figures['fair_bits']}" if "ands" in figures else "",
    ]


def _releases(audits: Sequence[Audited]) -> Table:
    return Table(
        ["release, neighboring relation", "ε asked", "moved", "ε", "δ", "ε at 10⁻⁶"],
        [
            [
                Stacked(f"{audited.name}\n{audited.parameters['neighboring_relation']}"),
                exact_text(audited.requested.epsilon),
                str(audited.figures["values_moved"]),
                _short(audited.figures["epsilon"]),
                _short(audited.figures.get("delta", 0)),
                _short(audited.figures.get("epsilon_at_1e-6", "")),
            ]
            for audited in audits
        ],
        "lrrrrr",
        caption="Moved: how many noisy values two neighbors differ in, from the linear map that is noised.",
        if_wide=["ε at 10⁻⁶"],
    )


def _local(audits: Sequence[Audited]) -> Table:
    return Table(
        ["local mechanism, replace_one", "ε asked", "ε claimed", "ε"],
        [
            [
                audited.name,
                exact_text(audited.requested.epsilon),
                _short(audited.figures["epsilon_claimed"]),
                _short(audited.figures["epsilon"]),
            ]
            for audited in audits
        ],
        caption="ε claimed: by the theorems of Juarez and Korolova 2022. ε: over all inputs and outputs; ∞: "
        "the ratio of two inputs' probabilities has no bound.",
    )


def _short(figure: Fraction | int | str | None, digits: int = 4) -> str:
    """Return a figure as text: a fraction rounded up to so many digits, and ∞ for None."""
    if figure is None:
        return "∞"
    return digits_up(figure, digits) if isinstance(figure, Fraction) else str(figure)
