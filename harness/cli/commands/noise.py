"""`noise`: samples of the noise, opened, for audits and benchmarks."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_model
from harness.cli.options import parse_choice, parse_delta, parse_epsilon, parse_seconds, parse_whole, require
from harness.cli.terminal import command, plain, say
from harness.errors import OptionError
from harness.pipeline.noise_samples import (
    FALSE_ALARM,
    MOST_SAMPLES,
    WARNING,
    NoiseRun,
    choose_sampler,
    open_noise,
)
from harness.pipeline.run import DEFAULT_DELTA, Settings
from harness.system.result_files import default_out
from harness.views import weights as show
from protocols.accounting.rounding import digits_up
from protocols.spec import NO_INPUT

SAMPLERS = ("default", "symmetric", "published")
_STEPS = {"compile": "compile the program", "run": "parties: run π_LAP", "read": "compare with the exact law"}


@command
def noise(
    *,
    n: str,
    epsilon: str,
    delta: str,
    sampler: str,
    rounded: bool,
    model: str,
    out: str,
    timeout: str,
    as_json: bool,
) -> None:
    """Run π_LAP with one of its samplers, all parties on this machine."""
    require({"--n": n, "--epsilon": epsilon})
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    parse_choice("--sampler", sampler, list(SAMPLERS))
    if sampler == "published" and delta:
        raise OptionError("--sampler published takes no --delta: what it has follows from its epsilon.")
    if sampler != "published" and rounded:
        raise OptionError("--rounded goes with --sampler published only; the other samplers' are integers.")
    size = parse_whole("--n", n, 1, MOST_SAMPLES)
    total, tail = parse_epsilon(epsilon), parse_delta(delta or DEFAULT_DELTA)
    chosen = choose_sampler(sampler, total, tail, rounded)
    settings = Settings(chosen_model(model), NO_INPUT, total, tail, timeout_s=parse_seconds(timeout))
    target = Path(out) if out else default_out("noise")
    with cli.steps(_STEPS) as begin:
        run = open_noise(chosen, size, settings, target, begin)
    _show(run)
    show.results(target)
    if as_json:
        print((target / "noise.json").read_text(encoding="utf-8"), end="")


def _show(run: NoiseRun) -> None:
    summary, stated = run.summary, run.sampler.guarantee
    table = Table(f"{len(run.samples):,} samples, sampler {run.sampler.name}")
    for heading in ("opened", "exact law"):
        table.add_column(heading, justify="right")
    table.add_row("mean", f"{summary.mean:,.4f}", f"{summary.exact_mean:,.4f}")
    table.add_row("mean square around it", f"{summary.mean_square:,.4f}", f"{summary.exact_mean_square:,.4f}")
    for name, found, exact in zip(
        ("least", "largest"), summary.extremes, summary.exact_extremes, strict=True
    ):
        table.add_row(name, f"{found:,.6g}", f"{exact:,.6g}")
    cli.out.print(table)
    verdict = "within" if summary.distance <= summary.bound else "[bold red]beyond[/]"
    say(
        f"Largest difference of the two distribution functions: {summary.distance:.5f}, {verdict} the "
        f"{summary.bound:.5f} that fair noise exceeds with probability {FALSE_ALARM:g} at most."
    )
    say(f"[bold]{WARNING}[/]")
    epsilon, delta = digits_up(stated.epsilon, 4), digits_up(stated.delta, 4)
    of = "A count that moves by 1 and carries such a sample, kept secret, has"
    if run.sampler.name == "published":
        say(f"{of} δ = {delta} at the requested ε = {epsilon}: this sampler is here for comparison only.")
    else:
        say(f"{of} ε = {epsilon} and δ = {delta}.")
    manifest = run.manifest
    sent = sum(manifest["sent_bytes"])
    rounds = "" if manifest["rounds"] is None else f", {manifest['rounds']} rounds"
    say(
        f"Cost: {manifest['mpc_s']:.3f} s in the computation, "
        f"{manifest['mpc_s'] / len(run.samples) * 1e6:,.1f} µs a sample, {sent / 1e3:,.0f} kB sent by all "
        f"parties{rounds} ({plain(manifest['engine_version'])}, model {manifest['model']})."
    )
