"""Two releases about the same clients: a cap on what each contributes, then a statistic with that cap."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from harness.engines.base import Progress
from harness.errors import OptionError, named
from harness.inputs.contribution_bounds import Cap, caps_to_choose_from
from harness.inputs.record_schema import DEFAULT_THRESHOLDS
from harness.inputs.records import ClientRecords
from harness.pipeline.run import Run, RunSettings, run_release
from harness.pipeline.sources import RecordsSource
from harness.privacy.ledger.charge import Entry, entry
from harness.privacy.ledger.populations import PrivacyEvent
from harness.releases.base import Statistic
from harness.releases.contribution_cap import CapStatistic, CapTarget, ChosenCap, sizes_alone
from harness.system.result_files import check_new
from protocols.guarantee import compose

T = TypeVar("T")


def cap_directory(out: Path) -> Path:
    """Return where the files of the first run are, if those of the second are in `out`."""
    return out.parent / f"{out.name}-cap"


def run_with_chosen_cap(
    statistic: Statistic[T],
    records: ClientRecords,
    of_cap: RunSettings,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    chosen: Callable[[ChosenCap], None],
) -> Run[T]:
    """Choose a cap by π_CAP, then run the statistic with it; each is a release, and a charge, of its own.

    Where runs are declared to be alike, both are one charge, as one has other noise than the other.

    The cap's files are in a directory beside `out`. They stay if the statistic fails: their epsilon is spent,
    and the cap can be used again. What the statistic's files say of privacy is of both runs together, for
    whichever cap is chosen.
    Args: of_cap, settings: of the two releases, alike but for epsilon, delta and form; progress: told the
    steps of the first with "cap " before them; chosen: told the cap.
    Raises: FairSharesError: `out` does not exist then. What can be known before is found before anything is
    spent: that no noise, or no result, fits the largest cap, that the budget does not hold both, that a
    directory exists.
    """
    domain, cap_out = records.domain, cap_directory(out)
    if domain.cap:
        raise OptionError(f"The domain file says how much of a client counts; leave out {named('cap')}.")
    for directory in (out, cap_out):
        check_new(directory)
    thresholds = len(domain.thresholds) or DEFAULT_THRESHOLDS
    release = settings.release
    target = CapTarget(statistic.name, release.guarantee, thresholds, release.malleable_slots)
    caps = caps_to_choose_from(domain.max_count)
    prepared = statistic.prepare(release, replace(domain, cap=Cap(caps[-1])))
    plan = prepared.plan
    both = compose(each.release.guarantee for each in (of_cap, settings))
    event = PrivacyEvent(statistic.name, release.model.name, both, plan.unit, plan.relation, out)
    Entry(settings.account).check(event)

    def first(step: str) -> None:
        progress(f"cap {step}")

    with ExitStack() as stack:
        within = stack.enter_context(entry(settings.account)) if settings.account.declared else None
        if within is not None:
            within.whole = event
        sizes = RecordsSource(sizes_alone(records))
        cap = run_release(CapStatistic(target), sizes, of_cap, cap_out, first, within=within)
        chosen(cap.found)
        capped = RecordsSource(replace(records, domain=replace(domain, cap=Cap(cap.found.cap))))
        earlier = {"cap": cap.manifest}
        return run_release(statistic, capped, settings, out, progress, earlier=earlier, within=within)
