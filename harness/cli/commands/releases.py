"""Releases."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli import terminal as cli
from harness.cli.command_line import OF_RUNS
from harness.cli.commands.choices import chosen_hosts
from harness.cli.report import present, tell
from harness.clients.sender import check_directory
from harness.engines.base import Progress
from harness.errors import OptionError, cannot, named, naming, refuse
from harness.pipeline.preprocessing import joint_noise_of, preprocess
from harness.pipeline.release import (
    cap_directory,
    chooses_cap,
    declared_domain,
    grid_of,
    of_noise,
    run_on_records,
    score_cut,
    settings_of,
    stock_of,
    with_cap,
)
from harness.pipeline.run import Run, RunSettings, run_release
from harness.pipeline.sources import InvitedSource, SharesSource
from harness.privacy.ledger.charge import UNCHARGED
from harness.releases.base import statistic_of
from harness.request.fields import as_text
from harness.request.plans import IN_PLAN, Expected
from harness.system.result_files import check_new, default_out
from harness.views import run as run_view
from harness.views.ledger import charge
from harness.views.releases import cap as cap_view

if TYPE_CHECKING:
    from harness.hosts.runner import HostsRunner

Made = tuple[Path | str, list[dict[str, Any]]]
"""The place of noise made ahead, and each piece's costs."""

# A command up to its refusal, when it begins to read, and its later imports.
_A_COMMAND = f"""
import cryptography.hazmat.primitives.ciphers, harness.views.releases.weights, msgspec.json
from invoke import Collection
from harness.cli.app import Commands
from harness.cli.user_commands import COMMANDS
refused = ["", "weights", "--records", {os.devnull!r}, "--epsilon", "1"]
try: Commands(namespace=Collection(*COMMANDS)).run_to_the_end(refused)
except SystemExit: pass
"""


def release(options: Any) -> None:
    """Run a release, or go on with earlier results, and show the result."""
    if options.earlier and getattr(options, options.earlier[0]):
        from harness.cli.commands.earlier import again  # a new run needs none of it

        again(options)
        return
    view, cut = run_view.view_of(options.task), score_cut(options)
    run = released(options, view.steps)
    if run is None:
        return
    manifest, typed = run.manifest, as_text(options.epsilon)
    # The coordinator's view and power, which the model does not cover.
    at_hosts = [run_view.on_hosts(bool(options.invite))] if options.hosts else []
    after = [
        *(run_view.chosen_cap(manifest, cap_directory(run.out)) if chooses_cap(options) else ()),
        *view.hints(options, run),
        charge(run.charging, options.population == UNCHARGED),
    ]
    present(
        options,
        manifest,
        run.out,
        view.what.capitalize(),
        [*([cut.described(run.found.counts.domain)] if cut else ()), *view.show(run.found, manifest)],
        [
            "",
            run_view.in_short(manifest, typed, not at_hosts),
            *at_hosts,
            *run_view.left_out(manifest),
            *after,
        ],
        [
            *run_view.statement(manifest, view.what, typed),
            *(at_hosts or [run_view.one_machine(bool(options.records))]),
            *after,
        ],
        getattr(run.found, "problem", None),  # why the result falls short although its ε is spent
    )


def released(options: Any, steps: Mapping[str, str]) -> Run[Any] | None:
    """Run a release; return None after a plan, or noise made ahead."""
    if options.plan is not None:
        _plan(options)
        return None
    if options.preprocess is not None:
        make_noise(options, steps, _made_for_release)
        return None
    hosts, at_rest = None, SharesSource(options.shares)
    if options.hosts:
        options, hosts, at_rest = _at_hosts(options)
    settings = settings_of(options, hosts, cli.announce)
    out = options.out or default_out(options.task)
    with cli.steps({**run_view.HOST_STEPS, **run_view.CAP_STEPS, **steps}) as begin:
        if options.records:
            return run_on_records(options, options.records, settings, out, begin, _say_cap)
        source = _invited(options, settings) if options.invite else at_rest
        if hosts is None:
            return run_release(statistic_of(settings.release), source, settings, out, begin)
        request = settings.release.but(population=settings.account.population)
        check_new(out)  # before hosts are involved
        with hosts.connected(begin):
            hosts.propose(request)
            return run_release(statistic_of(request), source, replace(settings, release=request), out, begin)


def _at_hosts(options: Any) -> tuple[Any, "HostsRunner", Any]:
    from harness.hosts.runner import HostsRunner, HostsSource  # slow to load

    fleet, model = chosen_hosts(options.hosts, options.security)
    hosts = HostsRunner(fleet, model)
    return options.but(security=model), hosts, HostsSource(hosts)


def _say_cap(*chosen: Any) -> None:
    cli.announce(*cap_view.going_on_with(*chosen))


def _invited(options: Any, settings: RunSettings) -> InvitedSource:
    directory, clients = options.invite, options.clients
    domain = declared_domain(options)
    if domain is None:
        raise OptionError("--invite needs --domain, or --groups and --labels: nobody has all records.")
    domain = with_cap(domain, options.cap, settings.release.privacy_unit)
    with cannot(f"write to --invite {directory}", OptionError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory, clients)
    cli.announce(
        f"Each of {clients} clients sends by ./inv send --records FILE --invitation "
        f"{directory / 'client-<k>.json'}, k from 0, once that file is there."
    )
    return InvitedSource(domain, directory, clients)


def make_noise(options: Any, steps: Mapping[str, str], make: Callable[[Any, Progress], Made]) -> None:
    """Make noise of several runs by `make`, and show its costs."""
    others = [name for name in ("records", *OF_RUNS) if name != "hosts" and getattr(options, name, None)]
    if others:
        raise OptionError(
            f"--preprocess makes noise and reads no record: leave out {', '.join(map(named, others))}."
        )
    with cli.steps({**run_view.HOST_STEPS, **steps}) as begin:
        place, pieces = make(options, begin)
    shown = run_view.preprocessed(str(place), pieces)
    cli.show_or_print({"stock": str(place), "pieces": pieces}, *shown)


def _made_for_release(options: Any, begin: Progress) -> Made:
    runs, stock = options.preprocess, stock_of(options)
    if options.hosts:
        options, hosts, _ = _at_hosts(options)
        with hosts.connected(begin):
            made = hosts.preprocess(of_noise(options, hosts), runs, options.timeout, begin)
        return "each host's directory", made
    made = preprocess(joint_noise_of(of_noise(options)), stock, runs, options.timeout, begin)
    return stock.directory, made


def _plan(options: Any) -> None:
    from harness.forecast.plan import starting_s
    from harness.forecast.requested import of_domain, planned
    from harness.views import plan as view

    others = [name for name in (*OF_RUNS, "preprocess") if getattr(options, name, None)]
    of_file = not options.plan["clients"]
    refuse(
        OptionError,
        (others, f"--plan runs nothing: leave out {', '.join(map(named, others))}."),
        (
            bool(options.records) != of_file,
            "--plan file is of the clients of --records: give both; or give a number of clients, and no "
            "records.",
        ),
    )
    texts = {
        **{
            name: as_text(getattr(options, name, None)) for name in ("groups", "labels", "steps", "max_count")
        },
        "thresholds": as_text(len(grid_of(options)) or None),
        "from_records": as_text(options.records),
    }
    if options.domain and not of_file:
        texts |= of_domain(declared_domain(options, of_values=options.task == "gap"), options.task)
    with naming(IN_PLAN):
        plan = planned(
            options.request, Expected(**texts, **options.plan), started=partial(starting_s, _A_COMMAND)
        )
    shown, title = list(view.plan(plan)), f"Plan of {options.task}"
    tell("plan", title, shown, lambda: view.to_json(plan), plot=options.plot)
