"""`weights`: DP sample weights per group and label."""

from __future__ import annotations

from pathlib import Path

from harness import cli, show
from harness.cli import command
from harness.commands.chosen import chosen_form, chosen_model, declared_domain
from harness.errors import OptionError
from harness.options import (
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_relation,
    parse_seconds,
    require,
)
from harness.pipeline import Settings, check_supported, default_out, run_on_records, run_on_shares
from harness.postprocess import REWEIGHINGS
from harness.records import DEFAULT_MAX_COUNT, read_records
from harness.weights import WeightsStatistic
from protocols.spec import PI_RW


@command
def weights(
    epsilon: str,
    records: str,
    shares: str,
    declared: tuple[str, str, str, str],
    model: str,
    input_form: str,
    delta: str,
    relation: str,
    reweighing: str,
    only: dict[str, tuple[str, str]],
    out: str,
    timeout: str,
    as_json: bool,
) -> None:
    """Run π_RW on a records file or on shares, all parties on this machine."""
    require({"--epsilon": epsilon})
    for option, (given, offered) in only.items():
        parse_choice(option, given, [offered])
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    if bool(records) == bool(shares):
        raise OptionError(
            "Give either --records (a file of clients' records) or --shares (what `share` wrote)."
        )
    settings = Settings(
        model=chosen_model(model),
        form=chosen_form(PI_RW, input_form),
        epsilon=parse_epsilon(epsilon),
        delta=parse_delta(delta),
        relation=parse_relation(relation),
        timeout_s=parse_seconds(timeout),
    )
    statistic = WeightsStatistic(parse_choice("--reweighing", reweighing, list(REWEIGHINGS)))
    check_supported(statistic.spec, settings)
    target = Path(out) if out else default_out("weights")
    with cli.steps(show.WEIGHT_STEPS) as begin:
        if records:
            begin("records")
            domain = declared_domain(*declared)
            most = parse_max_count(declared[3]) if declared[3] else DEFAULT_MAX_COUNT
            found = read_records(Path(records), domain, most)
            run = run_on_records(statistic, found, settings, target, begin)
        else:
            if any(declared):
                raise OptionError(
                    "With --shares the domain is the one that was shared; leave out the options for it."
                )
            run = run_on_shares(statistic, Path(shares), settings, target, begin)
    show.weights(run)
    show.one_machine(bool(records))
    show.results(target)
    if as_json:
        print((target / "weights.json").read_text(encoding="utf-8"), end="")
