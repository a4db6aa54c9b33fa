"""`noise`: samples of the noise, opened, for audits and benchmarks."""

from __future__ import annotations

from rich.table import Table

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_model
from harness.cli.options import NoiseOptions
from harness.cli.parsers import parse_delta
from harness.cli.terminal import plain, say
from harness.errors import OptionError
from harness.pipeline.noise_samples import (
    FALSE_ALARM,
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

_STEPS = {"compile": "compile the program", "run": "parties: run π_LAP", "read": "compare with the exact law"}


def noise(options: NoiseOptions) -> None:
    """Run π_LAP with one of its samplers, all parties on this machine."""
    sampler, published = options.sampler, options.sampler == "published"
    if published and options.delta:
        raise OptionError("--sampler published takes no --delta: what it has follows from its epsilon.")
    if not published and options.rounded:
        raise OptionError("--rounded goes with --sampler published only; the other samplers' are integers.")
    delta = options.delta or parse_delta(DEFAULT_DELTA)
    chosen = choose_sampler(sampler, options.epsilon, delta, options.rounded)
    model = chosen_model(options.model)
    settings = Settings(model, NO_INPUT, options.epsilon, delta, timeout_s=options.timeout)
    target = options.out or default_out("noise")
    with cli.steps(_STEPS) as begin:
        run = open_noise(chosen, options.n, settings, target, begin)
    _show(run)
    show.results(target)
    if options.json:
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
