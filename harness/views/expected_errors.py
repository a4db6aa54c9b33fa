"""Expected errors of a release, in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.releases.base import FIRST_ORDER, ExpectedError, by_cell
from fairshares.harness.views.parts import Findings, Paragraph, Part, Table
from fairshares.harness.views.rendering.plots import intervals, with_ends
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.circuits.coins import NoiseFamily, family_of

if TYPE_CHECKING:  # a view of a result needs no plan
    from fairshares.harness.forecast.plan import ExpectedRelease, ReleasePlan

MOST_ROWS = 20  # rows of a table of errors


@dataclass(frozen=True)
class PlanSection:
    """A release's section of a plan.

    Attributes:
        release: The errors and facts that are expected of the release.
        number: The section's number, from 1.
        chooses_cap: Whether the plan has two releases, of which one chooses the cap of the other.
    """

    release: ReleasePlan
    number: int
    chooses_cap: bool


def models_named(release: ReleasePlan) -> str:
    """Name the models that a release's figures are for, unless they are for all."""
    if release.alone:
        return ""
    names = ", ".join(model.title for model in release.models)
    return f", in {names}"


def _worst(errors: Mapping[str, float]) -> str:
    """Return whose error is the largest."""
    return max(errors, key=lambda name: errors[name])


def drawn(section: PlanSection, what: str, errors: Mapping[str, float]) -> Iterator[Part]:
    """Picture a release's errors, by whose they are; `what` says which errors these are."""
    release = section.release
    number = section.number
    worst = _worst(errors)
    yield Findings([f"The largest {what} is {share_shown(errors[worst])} ({worst}){models_named(release)}."])
    names = list(errors)[:MOST_ROWS]
    percentages = [min(100 * errors[name], 100.0) for name in names]
    whose = "" if release.asked.held is None else "\nfrom the file itself, for its owner only"
    yield intervals(
        "errors" if number == 1 else f"errors_{number}",
        names,
        {"": with_ends(percentages, None)},
        f"{what}, %{whose}",
        "Expected errors; those over 100 % are drawn there. Beyond the dotted line it is mostly noise.",
        at=100 * FIRST_ORDER,
        logarithmic=True,
    )


def noise_errors(section: PlanSection) -> Iterator[Part]:
    """Show a release's expected errors, where they come from, and what would make them smaller."""
    release = section.release
    errors = release.found
    assert isinstance(errors, ExpectedError)  # a release with expected errors of another kind shows these
    stage = release.asked
    yield from drawn(section, f"error of the {errors.what} (RMS)", errors.each)
    yield from _cap_of(stage, section.chooses_cap)
    yield f"Count {errors.counted}: off by {errors.count:,.3g} (RMS)."
    yield from _center_of_noise(stage)
    yield from _table_of_errors(stage, errors)
    if errors.gap is not None:
        yield f"The noise alone would make equal groups differ by {share_shown(errors.gap)}."
    if not errors.known:
        yield Paragraph(
            "Mostly noise: above 10 % these figures say only that the error is large.", strong="Mostly noise"
        )
    needed = release.needed
    if needed is not None:
        epsilon = "no ε up to 20"
        if needed.guarantee is not None:
            epsilon = f"ε = {digits_up(needed.guarantee.epsilon, 4)}"
        target = share_shown(needed.error)
        yield (
            f"Target error {target}: takes {needed.people:,} {unit_of(stage)} at this ε, or {epsilon} with "
            f"these {stage.people:,}."
        )
    by_noise = release.by_noise
    if by_noise:
        best = min(by_noise, key=lambda name: by_noise[name])
        others = [f"{name}: {error:,.3g}" for name, error in by_noise.items() if name != best]
        others += [f"{name}: {error:,.3g} (not built)" for name, error in release.elsewhere.items()]
        yield f"Best noise at this δ: {best}. A count would be off by, with {'; '.join(others)}."


def _cap_of(stage: ExpectedRelease, chosen: bool) -> Iterator[Part]:
    """Describe a release's cap on the records of a client, if it has one; `chosen` is one by a release."""
    cap = stage.cap
    if not cap or stage.statistic.kind is RecordKind.VALUE:
        return
    per_client = f"{stage.records / stage.clients:,.3g}"
    sentence = f"{cap.described}."
    if chosen:
        sentence = f"if all clients have {per_client} records, the cap is about this; {sentence}"
    yield f"{sentence[0].upper()}{sentence[1:]}"
    if not cap.weight_one and stage.records > stage.clients * cap.slots:
        yield f"Records beyond the cap, of {per_client} each, do not count as an error here."


def _center_of_noise(stage: ExpectedRelease) -> Iterator[Part]:
    """Say about which value joint noise is symmetric."""
    coins = stage.prepared.plan.coins
    if not coins:
        return
    if family_of(coins) is NoiseFamily.SYMMETRIC:
        yield "Joint noise: symmetric about 0, so revealed values are whole."
    else:
        yield "Joint noise: symmetric about −½, to which half is added, so revealed values end in .5."


def _table_of_errors(stage: ExpectedRelease, errors: ExpectedError) -> Iterator[Part]:
    """Show the error of each group or pair; of a file's own records also whether the worst survives."""
    worst = _worst(errors.each)
    rows = [[name, share_shown(value)] for name, value in list(errors.each.items())[:MOST_ROWS]]
    if len(errors.each) > MOST_ROWS:
        rows.append(
            [f"… {len(errors.each) - MOST_ROWS} more; the worst: {worst}", share_shown(errors.each[worst])]
        )
    by_group = errors.each.keys() == set(stage.domain.groups)
    yield Table(["group" if by_group else "group, label", f"error of the {errors.what} (RMS)"], rows)
    if stage.held is None:
        return
    if by_group:
        counting = stage.sizes[stage.domain.groups.index(worst)].sum()
    else:
        counting = by_cell(stage.domain, stage.sizes)[worst]
    verdict = "survives the noise" if errors.each[worst] <= FIRST_ORDER else "is mostly noise"
    yield f"The worst is {worst}, with {counting:,.0f} {unit_of(stage)} that count: it {verdict}."


def unit_of(release: ExpectedRelease) -> str:
    """Name what errors depend on the number of: clients, or records."""
    return "clients" if release.by_clients else "records"


def share_shown(value: float) -> str:
    """Return a relative error as a percentage of two digits."""
    return f"{100 * value:.2g} %" if value < 1 else "over 100 %"
