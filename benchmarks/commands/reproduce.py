"""What the tasks `reproduce.*` do."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.studies.capping.population import Population, lognormal, movielens, zipf
from benchmarks.studies.capping.report import show as show_capping
from benchmarks.studies.capping.report import write as write_capping
from benchmarks.studies.capping.study import SEED
from benchmarks.studies.capping.study import study as study_capping
from benchmarks.studies.gaps.show import show
from benchmarks.studies.gaps.study import QUICK, WHOLE, reproduce, write
from benchmarks.studies.groupwise import show as show_groupwise
from benchmarks.studies.groupwise import study
from benchmarks.studies.groupwise import write as write_groupwise
from harness.cli import terminal as cli
from harness.cli.options import parse_epsilon, parse_error_target, parse_whole
from harness.cli.terminal import command
from harness.errors import OptionError
from harness.system.result_files import default_out, new_directory
from harness.views.weights import results

_STEPS = {
    "data": "rates of the recordings, or of the synthetic population",
    "table1": "Table 1",
    "table2": "Table 2, simulated clients",
    "figures": "figures",
}


_GROUPWISE_STEPS = {"compute": "laws of the noise, by the size of the group", "draw": "draw and write"}


@command
def groupwise(epsilon: str, target: tuple[str, str, str], out: str, as_json: bool) -> None:
    """Draw privacy and error by the size of the group; no parties are started."""
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    most, wanted = parse_epsilon(epsilon), parse_error_target(*target)
    directory, started = Path(out) if out else default_out("reproduce.groupwise"), time.monotonic()
    with new_directory(directory) as partial, cli.steps(_GROUPWISE_STEPS) as begin:
        begin("compute")
        try:
            found = study(wanted, most)
        except ValueError as error:
            raise OptionError(f"--epsilon {most} does not do: {error}.") from None
        begin("draw")
        told = (
            f"./inv reproduce.groupwise --epsilon {most} --relative-error {wanted.relative:g} "
            f"--error-from {wanted.least} --error-to {wanted.most}"
        )
        write_groupwise(found, told, time.monotonic() - started, partial)
    show_groupwise(found)
    results(directory)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))


_CAPPING_STEPS = {"data": "populations", "compute": "expected errors", "draw": "draw and write"}
_MOST_CLIENTS = 1_000_000
_OTHER_SIZES, _OTHER_EXPONENTS, _SPREADS = (3_000, 30_000), (1.25, 2.5), (1.0, 2.0)


@command
def capping(
    data: str, other_data: str, clients: str, exponents: str, held_out: bool, out: str, as_json: bool
) -> None:
    """Compute what caps on clients' records cost and save; no parties are started."""
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    sizes = [parse_whole("--clients", each, 100, _MOST_CLIENTS) for each in clients.split(",")]
    laws = [_parse_exponent(each) for each in exponents.split(",")]
    directory, started = Path(out) if out else default_out("reproduce.capping"), time.monotonic()
    with new_directory(directory) as partial, cli.steps(_CAPPING_STEPS) as begin:
        begin("data")
        populations = [zipf(size, law, SEED) for law in laws for size in sizes]
        others = _other_populations() if held_out else []
        for path, among in ((data, populations), (other_data, others)):
            if path:
                among.append(movielens(Path(path)))
        begin("compute")
        found = study_capping(populations, others, begin.detail)
        begin("draw")
        told = f"./inv reproduce.capping --clients {clients} --exponents {exponents}"
        for option, path in (("movielens", data), ("held-out-movielens", other_data)):
            told += f" --{option} {Path(path).name}" if path else ""
        told += " --held-out" * held_out
        write_capping(found, told, time.monotonic() - started, partial)
    show_capping(found)
    results(directory)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))


def _other_populations() -> list[Population]:
    """Return clients that no target was chosen by."""
    drawn = ((zipf, _OTHER_EXPONENTS), (lognormal, _SPREADS))
    return [draw(size, law, SEED) for draw, laws in drawn for law in laws for size in _OTHER_SIZES]


def _parse_exponent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 4:
        raise OptionError(f"--exponents must be numbers from 0.5 to 4, separated by commas; got {text!r}.")
    return value


@command
def gaps(data: str, quick: bool, target: str, as_json: bool) -> None:
    """Reproduce the tables and figures on gaps under local privacy; no parties are started."""
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    directory, started = Path(target) if target else default_out("reproduce.gaps"), time.monotonic()
    source, extent = Path(data) if data else None, QUICK if quick else WHOLE
    with new_directory(directory) as partial, cli.steps(_STEPS) as begin:
        found = reproduce(source, extent, begin, begin.detail)
        told = f"./inv reproduce.gaps{f' --data {source.name}' if source else ''}{' --quick' * quick}"
        write(found, extent, told, time.monotonic() - started, partial)
    show(found)
    results(directory)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
