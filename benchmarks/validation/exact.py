"""What has to be equal to the last digit: sizes, numbers of parties, whole suites of one version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.measure.samples import FAILED, SKIPPED, Level, Sample
from benchmarks.papers import privfairfl
from benchmarks.validation.cells import CellRuns, Measured, name_of
from benchmarks.validation.findings import Check
from harness.security_models import MODELS

TABLE2 = "table2"


def none_of(key: str, says: str, wrong: Sequence[str], of: int, what: str) -> Check:
    """Check that nothing is wrong with `of` things; where there are none, that cannot be judged."""
    if not of:
        return Check(key, says, unjudged=f"there are no {what}")
    shown = "; ".join(wrong[:3]) + ("; …" if len(wrong) > 3 else "")
    return Check(key, says, len(wrong), 0, 0, shown or f"all of {of:,} {what}")


def checks(measured: Measured) -> Iterator[Check]:
    """Yield the checks of the suites themselves, then those of sizes and parties."""
    for suite in measured.suites:
        yield from _whole(suite, measured)
    yield from _sizes(measured.where(TABLE2))
    yield from _parties(measured)


def _whole(suite: str, measured: Measured) -> Iterator[Check]:
    """Is a suite finished, each cell run as often as the others, by one program, on one installation?"""
    cells = measured.where(suite)
    ran = [cell for cell in cells if cell.ok or cell.of(FAILED)]
    runs = [run for cell in cells for run in cell.ok]
    about = measured.abouts.get(suite)
    key = f"whole.{suite}"
    if about is not None:
        unfinished = [] if about.get("finished") else [f"begun {about.get('started', 'at some time')}"]
        yield none_of(f"{key}.finished", "the suite ran to its end", unfinished, 1, "suites")
    plan, by_key = measured.plans.get(suite), {cell.runs[0].key: cell for cell in cells}
    says = "every cell ran as often as planned, and well"
    if plan is None:
        yield Check(f"{key}.repetitions", says, unjudged="nothing says what was asked for")
    else:
        fewer = [_shortfall(by_key.get(planned), dict(planned), times) for planned, times in plan.items()]
        yield none_of(f"{key}.repetitions", says, [each for each in fewer if each], len(plan), "cells")
    mixed = [cell.name for cell in ran if len({run.program_hash for run in cell.ok}) > 1]
    yield none_of(f"{key}.program", "all runs of a cell are of one program", mixed, len(ran), "cells")
    versions = {(run.engine, run.engine_version, _machine(run)) for run in runs}
    engines = {engine for engine, _, _ in versions}
    several = sorted(f"{version}" for _, version, _ in versions) if len(versions) > len(engines) else []
    says = "all runs are of one version of each engine, on one machine"
    yield none_of(f"{key}.versions", says, several, len(runs), "runs")
    for cell in cells:
        if cell not in ran:
            says = "the cell was measured"
            yield Check(f"{key}.measured.{cell.name}", says, unjudged=cell.reason)


def _shortfall(cell: CellRuns | None, planned: Mapping[str, Level], times: int) -> str:
    """Say what is missing of a planned cell, "" if nothing is or it was skipped."""
    if cell is None:
        return f"{name_of(planned)}: none"
    if cell.of(SKIPPED) and not cell.ok and not cell.of(FAILED):
        return ""
    well = [run.repetition for run in cell.ok]
    whole = well == list(range(max(times, len(well)))) and not cell.of(FAILED)
    return "" if whole else f"{cell.name}: {len(well)} of {times}"


def _machine(run: Sample) -> str:
    kept = {
        name: run.environment.get(name)
        for name in ("python", "platform", "cores", "packages", "mp_spdz_commit")
    }
    return json.dumps(kept, sort_keys=True)


def _sizes(cells: Sequence[CellRuns]) -> Iterator[Check]:
    paper = privfairfl()
    for shape in paper.shapes.values():
        of_shape = [cell for cell in cells if cell["shape"] == shape.name and cell.ok]
        for factor, size in (("clients", shape.clients), ("records", shape.records)):
            given = [cell for cell in of_shape if isinstance(cell[factor], int)]
            wrong = [f"{cell.name} has {cell[factor]}" for cell in given if cell[factor] != size]
            says = f"{shape.title} has {size:,} {factor}"
            yield none_of(f"exact.{factor}.{shape.name}", says, wrong, len(given), "cells")
    whole = [cell for cell in cells if cell["protocol"] == "pi_roc" and cell.ok]
    grid = [cell for cell in whole if cell["variant"] != "published"]
    wrong = [f"{cell.name}" for cell in grid if cell["thresholds"] != paper.thresholds]
    says = f"a curve has {paper.thresholds:,} thresholds"
    yield none_of("exact.thresholds", says, wrong, len(grid), "cells")


def _parties(measured: Measured) -> Iterator[Check]:
    paper = privfairfl()
    for model, parties in paper.parties.items():
        runs = [run for cell in measured.where(model=model) for run in cell.ok]
        wrong = [f"{len(run.sent_bytes)} sent" for run in runs if len(run.sent_bytes) != parties]
        says = f"{model} has {parties} parties, as {MODELS[model].paper_name} has"
        yield none_of(f"exact.parties.{model}", says, wrong, len(runs), "runs")
