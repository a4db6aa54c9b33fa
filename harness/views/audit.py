"""Audits: protection by noise and releases, with the claims."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairshares.harness.privacy.audit.figures import DELTAS, LocalFigures, NoiseFigures, ReleaseFigures
from fairshares.harness.privacy.audit.samplers import Audited
from fairshares.harness.views.parts import Findings, Part, Stacked, Table
from fairshares.harness.views.rendering.plots import deltas
from fairshares.protocols.accounting.rounding import digits_up, exact_text
from fairshares.protocols.circuits.coins import exp_bounds


def audit(audits: Sequence[Audited]) -> Iterator[Part]:
    """Show each kind of audited item, and whether claims hold. An item's figures say of which kind it is."""
    with_curve = [audited for audited in audits if audited.curve and audited.drawn]
    curves_of_noise = [audited for audited in with_curve if not isinstance(audited.figures, ReleaseFigures)]
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
    yield from _noise(audits)
    yield from dict.fromkeys(audited.note for audited in audits if audited.note)  # each sentence once
    yield from _releases(audits)
    yield from _local(audits)
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
    """Show the noise among audited items, if there is some."""
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
    rows: list[list[str]] = []
    for audited in audits:
        if isinstance(audited.figures, NoiseFigures):
            rows.append([audited.name, exact_text(audited.requested.epsilon), *_of_noise(audited.figures)])
    if rows:
        yield Table(
            columns,
            rows,
            caption="δ, any ε: the δ that remains however large ε is. ε at: the least with this δ, ∞ if none "
            "has it. max: largest noise. ANDs, bits: of one sample. All is exact; what is shown of ε "
            "and δ is rounded up.",
            if_wide=["at 10⁻⁹", "at 2⁻⁴⁰", "ANDs, bits"],
        )


def _of_noise(figures: NoiseFigures) -> list[str]:
    """Return the row of noise in its table, from the third column on."""
    curve = figures.curve
    epsilons = [_short(curve.epsilon_at[name]) for name in DELTAS]
    cost = figures.cost
    return [
        _short(curve.delta, 3),
        _short(curve.delta_at_every_epsilon, 3),
        *epsilons,
        _short(figures.largest_noise),
        f"{math.sqrt(figures.mean_square_error):.2f}",
        "" if cost is None else f"{cost.ands}, {cost.fair_bits}",
    ]


def _releases(audits: Sequence[Audited]) -> Iterator[Part]:
    """Show the releases among audited items, if there are some."""
    rows: list[list[str]] = []
    for audited in audits:
        figures = audited.figures
        if isinstance(figures, ReleaseFigures):
            rows.append(
                [
                    Stacked(f"{audited.name}\n{figures.relation}"),
                    exact_text(audited.requested.epsilon),
                    str(figures.values_moved),
                    _short(figures.epsilon),
                    _short(0 if figures.delta is None else figures.delta),
                    _short(figures.epsilon_at["1e-6"]) if "1e-6" in figures.epsilon_at else "",
                ]
            )
    if rows:
        yield Table(
            ["release, neighboring relation", "ε asked", "moved", "ε", "δ", "ε at 10⁻⁶"],
            rows,
            "lrrrrr",
            caption="Moved: how many noisy values two neighbors differ in, from the linear map that is "
            "noised.",
            if_wide=["ε at 10⁻⁶"],
        )


def _local(audits: Sequence[Audited]) -> Iterator[Part]:
    """Show the local mechanisms among audited items, if there are some."""
    rows: list[list[str]] = []
    for audited in audits:
        figures = audited.figures
        if isinstance(figures, LocalFigures):
            rows.append(
                [
                    audited.name,
                    exact_text(audited.requested.epsilon),
                    _short(figures.epsilon_claimed),
                    _short(figures.epsilon),
                ]
            )
    if rows:
        yield Table(
            ["local mechanism, replace_one", "ε asked", "ε claimed", "ε"],
            rows,
            caption="ε claimed: by the theorems of Juarez and Korolova 2022. ε: over all inputs and outputs; "
            "∞: the ratio of two inputs' probabilities has no bound.",
        )


def _short(figure: Fraction | int | None, digits: int = 4) -> str:
    """Return a figure as text: a fraction rounded up to so many digits, and ∞ for None."""
    if figure is None:
        return "∞"
    return digits_up(figure, digits) if isinstance(figure, Fraction) else str(figure)
