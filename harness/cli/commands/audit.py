"""`audit`: what noise and releases protect, recomputed from their distributions; `noise`: samples of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from rich.table import Table

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_model
from harness.cli.options import AuditOptions, NoiseOptions
from harness.cli.parsers import parse_delta
from harness.cli.terminal import out, plain, say
from harness.errors import AuditError, OptionError
from harness.pipeline.noise_samples import FALSE_ALARM, WARNING, NoiseRun, choose_sampler, open_noise
from harness.pipeline.run import DEFAULT_DELTA, Settings
from harness.privacy.audit.reference import reference_set
from harness.privacy.audit.releases import RELEASES, audit_command
from harness.privacy.audit.samplers import (
    DELTAS,
    EMULATED,
    LOGARITHMS,
    Audited,
    audit_published,
    audit_sampler,
)
from harness.system.result_files import default_out, new_directory, write_json
from harness.views import weights as show
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import digits_up
from protocols.spec import NO_INPUT

DELTA = parse_delta(DEFAULT_DELTA)
_WIDE = 110  # columns of a terminal that shows tables whole
_STEPS = {"audit": "recompute distributions and compositions", "plot": "draw δ(ε)"}
_NOISE_STEPS = {
    "compile": "compile the program",
    "run": "parties: run π_LAP",
    "read": "compare with the exact law",
}


def audit(options: AuditOptions) -> None:
    """Audit a sampler, a release, or without either the reference set; write and show what was found."""
    directory = options.out or default_out("audit")
    with cli.steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("audit")
        if options.sampler and options.release:
            raise OptionError("Audit either a --sampler or a --release.")
        if options.sampler:
            _only(options, "--sampler", "epsilon", "delta", "sensitivity")
            audits = _sampler(options.sampler, options)
        elif options.release:
            audits = [_release(options.release, options)]
        else:
            _only(options, "the reference set")
            audits = list(reference_set())
        begin("plot")
        _write(audits, partial)
    _show(audits)
    out.print(f"Results: {plain(str(directory))}", soft_wrap=True)
    if options.json:
        print((directory / "audit.json").read_text(encoding="utf-8"), end="")
    faults = [
        f"{audited.name} at ε = {audited.epsilon}: {audited.fault}" for audited in audits if audited.fault
    ]
    if faults:
        raise AuditError(f"A guarantee does not hold. {'; '.join(faults)}.")


def _only(options: AuditOptions, what: str, *offered: str) -> None:
    """Raise OptionError for an option that says nothing about what is audited."""
    for name, option in options.declared.items():
        if options.texts[name] and name not in (*offered, "sampler", "release", "out", "json"):
            raise OptionError(f"{option.flag} does not go with {what}.")


def _sampler(name: str, options: AuditOptions) -> list[Audited]:
    epsilon = options.epsilon or Fraction(1)
    if name == "published":
        _only(options, "--sampler published, which takes no other parameter", "epsilon")
        return [
            audit_published(
                epsilon,
                log,
                rounded=rounded,
                subject=f"pi_lap.published.{'rounded' if rounded else 'raw'}.{log.replace('-', '_')}",
            )
            for rounded in (False, True)
            for log in LOGARITHMS
        ]
    return [audit_sampler(name, epsilon, options.delta or DELTA, options.sensitivity or 1)]


def _release(name: str, options: AuditOptions) -> Audited:
    target = RELEASES[name]
    relation = options.neighboring_relation or target.relations[0]
    offered = [*target.sizes, "epsilon", "delta", "neighboring_relation"]
    offered += ["cap"] * (target.counts_records and relation is NeighboringRelation.ZERO_OUT_ONE)
    _only(options, f"--release {name} under {relation}", *offered)
    typed = {size: chosen for size in target.sizes if (chosen := getattr(options, size))}
    epsilon = options.epsilon or Fraction(1)
    return audit_command(name, typed, relation, epsilon, options.delta or DELTA, options.cap)


def _write(audits: Sequence[Audited], directory: Path) -> None:
    """Write `audit.json`, and `delta.png` if anything has a curve."""
    from harness.privacy.audit.plot import plot  # matplotlib is slow to import

    rows = [row for audited in audits for row in audited.rows()]
    write_json(directory / "audit.json", {"rows": rows})
    curves = [audited for audited in audits if audited.curve and not audited.name.endswith(EMULATED)]
    noise = [audited for audited in curves if "values_moved" not in audited.figures]
    if curves:
        plot(noise or curves, directory / "delta.png")


def _show(audits: Sequence[Audited]) -> None:
    noise = [audited for audited in audits if "largest_noise" in audited.figures]
    releases = [audited for audited in audits if "values_moved" in audited.figures]
    if noise:
        _show_noise(noise)
    for audited in audits:
        if "samples" in audited.parameters:
            _say_empirical(audited)
    if releases:
        _show_releases(releases)
    if local := [audited for audited in audits if "epsilon_claimed" in audited.figures]:
        _show_local(local)
    ours = [audited for audited in audits if audited.claimed]
    if ours and not any(audited.fault for audited in ours):
        say("What is claimed for this project's noise and releases holds, by this second derivation.")


def _show_noise(audits: Sequence[Audited]) -> None:
    headings = ("ε", "δ at ε", "δ, any ε", "ε at 10⁻⁶", "at 10⁻⁹", "at 2⁻⁴⁰", "max", "RMSE", "ANDs, bits")
    rows = []
    for audited in audits:
        figures = audited.figures
        square = figures["mean_square_error"]
        assert isinstance(square, Fraction)
        row = (
            audited.name,
            str(audited.epsilon),
            _short(figures["delta"], 3),
            _short(Fraction(str(figures["delta_at_every_epsilon"])), 3),
            *(_short(figures[f"epsilon_at_{at}"]) for at in DELTAS),
            _short(figures["largest_noise"]),
            f"{math.sqrt(square):.2f}",
            f"{figures['ands']}, {figures['fair_bits']}" if "ands" in figures else "",
        )
        rows.append(row)
    _print_table(("noise on one count",), headings, rows, headings[4:6] + headings[-1:])
    say(
        "δ, any ε: what no ε takes away. ε at: the least with this δ, ∞ if none has it. max: largest noise. "
        "ANDs, bits: of one sample. All is exact; what is shown of ε and δ is rounded up."
    )
    if any(audited.name.startswith("published") for audited in audits):
        say(
            "published: PrivFairFL's Protocol 1 with 16 fractional bits, opened raw, or after rounding to an "
            "integer. Its logarithm is the ideal one, or MP-SPDZ's to the last bit (round_nearest = True)."
        )


def _say_empirical(audited: Audited) -> None:
    low, value, high = (Fraction(str(audited.figures[name])) for name in ("delta_low", "delta", "delta_high"))
    at_least, most = math.floor(low * 1000) / 1000, math.ceil(high * 1000) / 1000
    say(
        f"Empirical: {audited.name}, ε = {audited.epsilon}: δ is at least {at_least:.3f}. One event tells "
        f"neighbours apart by {float(value):.3f} ({at_least:.3f} – {most:.3f}, confidence 1 − 10⁻⁹) in "
        f"{audited.parameters['samples']:,} samples that MP-SPDZ opened; another may do better."
    )


def _show_releases(audits: Sequence[Audited]) -> None:
    headings = ("ε asked", "moved", "ε", "δ", "ε at 10⁻⁶")
    rows = []
    for audited in audits:
        figures = audited.figures
        row = (
            audited.name,
            str(audited.parameters["neighboring_relation"]),
            str(audited.epsilon),
            str(figures["values_moved"]),
            _short(figures["epsilon"]),
            _short(figures.get("delta", 0)),
            _short(figures["epsilon_at_1e-6"]) if "epsilon_at_1e-6" in figures else "",
        )
        rows.append(row)
    _print_table(("release", "neighbouring relation"), headings, rows, headings[-1:])
    say("Moved: how many noisy values two neighbours differ in, from the linear map that is noised.")


def _show_local(audits: Sequence[Audited]) -> None:
    rows = []
    for audited in audits:
        claimed, exact = (_short(audited.figures[name]) for name in ("epsilon_claimed", "epsilon"))
        rows.append((audited.name, str(audited.epsilon), claimed, exact))
    _print_table(("local mechanism, replace_one",), ("ε asked", "ε claimed", "ε"), rows)
    say(
        "ε claimed: by the theorems of Juarez and Korolova 2022. ε: over all inputs and outputs; ∞: the "
        "ratio of two inputs' probabilities has no bound."
    )


def _print_table(
    names: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]], if_wide: Sequence[str] = ()
) -> None:
    """Print a table whose numbers stay whole; a narrow terminal goes without some columns."""
    headings = (*names, *numbers)
    kept = [k for k, heading in enumerate(headings) if out.width >= _WIDE or heading not in if_wide]
    table = Table()
    for k in kept:
        number = k >= len(names)
        table.add_column(headings[k], justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*(row[k] for k in kept))
    out.print(table)
    if len(kept) < len(headings):
        say(f"A terminal of {_WIDE} columns shows also: {', '.join(if_wide)}.")


def _short(figure: Fraction | int | str | None, digits: int = 4) -> str:
    if figure is None:
        return "∞"
    return digits_up(figure, digits) if isinstance(figure, Fraction) else str(figure)


def noise(options: NoiseOptions) -> None:
    """Run π_LAP with one of its samplers, all parties on this machine."""
    sampler, published = options.sampler, options.sampler == "published"
    if published and options.delta:
        raise OptionError("--sampler published takes no --delta: what it has follows from its epsilon.")
    if not published and options.rounded:
        raise OptionError("--rounded goes with --sampler published only; the other samplers' are integers.")
    delta = options.delta or DELTA
    chosen = choose_sampler(sampler, options.epsilon, delta, options.rounded)
    model = chosen_model(options.model)
    settings = Settings(model, NO_INPUT, options.epsilon, delta, timeout_s=options.timeout)
    target = options.out or default_out("noise")
    with cli.steps(_NOISE_STEPS) as begin:
        run = open_noise(chosen, options.n, settings, target, begin)
    _show_samples(run)
    show.results(target)
    if options.json:
        print((target / "noise.json").read_text(encoding="utf-8"), end="")


def _show_samples(run: NoiseRun) -> None:
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
    out.print(table)
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
