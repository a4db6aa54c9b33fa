"""Releases."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.commands.choices import chosen_hosts
from fairshares.harness.cli.report import present, tell
from fairshares.harness.engines.base import Progress
from fairshares.harness.errors import OptionError, cannot, named, naming
from fairshares.harness.online.client import check_directory
from fairshares.harness.pipeline.preprocessing import joint_noise_of, preprocess
from fairshares.harness.pipeline.release import (
    cap_directory,
    chooses_cap,
    of_noise,
    run_on_records,
    settings_of,
    stock_of,
    with_cap,
)
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import InvitedSource, SharesSource, Source
from fairshares.harness.privacy.ledger.charge import UNCHARGED
from fairshares.harness.releases.base import Answer, kind_of, statistic_of
from fairshares.harness.releases.cap import view as cap_view
from fairshares.harness.releases.cap.statistic import ChosenCap
from fairshares.harness.request.base import Request
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import Options, as_text
from fairshares.harness.request.plans import IN_PLAN, Expected
from fairshares.harness.request.releases import Invited, ReleaseCall
from fairshares.harness.system.result_files import check_new, default_out
from fairshares.harness.views import run as run_view
from fairshares.harness.views.ledger import charge
from fairshares.harness.views.parts import Part
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue

if TYPE_CHECKING:
    from fairshares.harness.hosts.runner import HostsRunner

Made = tuple[Path | str, list[dict[str, JsonValue]]]
"""The place of noise made ahead, and each piece's costs."""


class PieceCosts(Struct):
    """The costs of a piece of noise that views show: its seconds, and the bytes that each party sent."""

    mpc_s: float
    sent_bytes: list[int]


# A command up to its refusal, when it begins to read, and its later imports.
_A_COMMAND = f"""
import cryptography.hazmat.primitives.ciphers, fairshares.harness.releases.weights.view, msgspec.json
from invoke import Collection
from fairshares.harness.cli.app import Commands
from fairshares.harness.cli.user_commands import COMMANDS
refused = ["", "weights", "--records", {os.devnull!r}, "--epsilon", "1"]
try: Commands(namespace=Collection(*COMMANDS)).run_to_the_end(refused)
except SystemExit: pass
"""


def release(options: ReleaseOptions) -> None:
    """Run a release, or go on with earlier results, and show the result."""
    if options.goes_on:
        from fairshares.harness.cli.commands.earlier import again  # a new run needs none of it

        again(options)
        return
    request = options.call.request
    view = run_view.view_of(request.task)
    run = released(options, view.steps)
    if run is None:
        return
    manifest = run.manifest
    answer: list[Part] = []
    answer.extend(view.records(options.call, run.found))
    answer.extend(view.show(run.found, manifest))
    after: list[Part] = []
    if chooses_cap(options.call):
        after.extend(run_view.chosen_cap(manifest, cap_directory(run.out)))
    after.extend(view.hints(options.call, options.hosts, run))
    after.append(charge(run.charging, request.population == UNCHARGED))
    short: list[Part] = ["", run_view.in_short(manifest, here=not options.hosts)]
    full = list(run_view.statement(manifest, view.what))
    if options.hosts:
        # The coordinator's view and power, which the model does not cover.
        at_hosts = run_view.on_hosts(options.invited() is not None)
        short.append(at_hosts)
        full.append(at_hosts)
    else:
        full.append(run_view.one_machine(bool(options.call.source.records)))
    short.extend(run_view.left_out(manifest))
    present(
        options.plot,
        manifest,
        run.out,
        view.what.capitalize(),
        answer=answer,
        short=[*short, *after],
        full=[*full, *after],
        problem=getattr(run.found, "problem", None),  # why the result falls short although its ε is spent
    )


def released(options: ReleaseOptions, steps: Mapping[str, str]) -> Run[Answer] | None:
    """Run a release; return None after a plan, or noise made ahead."""
    if options.instead.plan is not None:
        _plan(options, options.instead.plan)
        return None
    if options.instead.preprocess is not None:
        make_noise(options, steps, partial(_made_for_release, options, options.instead.preprocess))
        return None
    call = options.call
    hosts = None
    if options.hosts:
        call, hosts = _at_hosts(call, options.hosts)
    invited = options.invited()
    settings = settings_of(call, hosts, cli.announce, invited)
    out = call.where.out or default_out(call.request.task)
    with cli.steps({**run_view.HOST_STEPS, **run_view.CAP_STEPS, **steps}) as begin:
        if call.source.records:
            return run_on_records(call, call.source.tabular(), settings, out, begin, chosen=_say_cap)
        source = _source(call, hosts, invited, settings)
        if hosts is None:
            return run_release(statistic_of(settings.release), source, settings, out, begin)
        check_new(out)  # before hosts are involved
        request = settings.release.but(population=settings.account.population)
        settings_at_hosts = replace(settings, release=request)
        with hosts.connected(begin):
            hosts.propose(request)
            return run_release(statistic_of(request), source, settings_at_hosts, out, begin)


def _at_hosts(call: ReleaseCall, file: Path) -> tuple[ReleaseCall, "HostsRunner"]:
    """Return a call with the model of its hosts, and what runs it there."""
    from fairshares.harness.hosts.runner import HostsRunner  # slow to load

    fleet, model = chosen_hosts(file, call.request.security)
    return call.but(security=model), HostsRunner(fleet, model)


def _source(
    call: ReleaseCall, hosts: "HostsRunner | None", invited: Invited | None, settings: RunSettings
) -> Source:
    """Return the source of a run without records, which the settings' checks have found."""
    if invited is not None:
        return _invited(call, invited, settings.release)
    if hosts is not None:
        from fairshares.harness.hosts.runner import HostsSource  # slow to load

        return HostsSource(hosts)
    assert call.source.shares is not None
    return SharesSource(call.source.shares)


def _say_cap(chosen: ChosenCap, clients: int, left: Guarantee) -> None:
    cli.announce(*cap_view.going_on_with(chosen, clients, left))


def _invited(call: ReleaseCall, invited: Invited, request: Request) -> InvitedSource:
    """Return the source of a run to which clients are invited by files in a directory."""
    directory = invited.directory
    domain = call.declares.of_kind(statistic_of(request).kind)
    if domain is None:
        raise OptionError("--invite needs --domain, or --groups and --labels: nobody has all records.")
    domain = with_cap(domain, request.protect.bound, request.protect.privacy_unit)
    with cannot(f"write to --invite {directory}", OptionError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory, invited.clients)
    cli.announce(
        f"Each of {invited.clients} clients sends by ./inv send --records FILE --invitation "
        f"{directory / 'client-<k>.json'}, k from 0, once that file is there."
    )
    return InvitedSource(domain, directory, invited.clients)


def make_noise(options: Options, steps: Mapping[str, str], make: Callable[[Progress], Made]) -> None:
    """Make noise of several runs by `make`, and show its costs."""
    others = [named(name) for name in options.stated("records", *options.names_of_runs()) if name != "hosts"]
    if others:
        raise OptionError(f"--preprocess makes noise and reads no record: leave out {', '.join(others)}.")
    with cli.steps({**run_view.HOST_STEPS, **steps}) as begin:
        place, pieces = make(begin)
    costs = msgspec.convert(pieces, list[PieceCosts])
    seconds = [piece.mpc_s for piece in costs]
    sent_bytes = [sum(piece.sent_bytes) for piece in costs]
    shown = run_view.preprocessed(str(place), seconds, sent_bytes)
    cli.show_or_print({"stock": str(place), "pieces": pieces}, *shown)


def _made_for_release(options: ReleaseOptions, runs: int, begin: Progress) -> Made:
    """Make the noise of so many runs of a release, at its hosts or here."""
    call = options.call
    seconds = call.where.timeout
    if options.hosts:
        call, hosts = _at_hosts(call, options.hosts)
        with hosts.connected(begin):
            made = hosts.preprocess(of_noise(call, hosts), runs, seconds, begin)
        return "each host's directory", made
    stock = stock_of(call.where, call.account)
    made = preprocess(joint_noise_of(of_noise(call)), stock, runs, seconds, begin)
    return stock.directory, made


def _plan(options: ReleaseOptions, sizes: Mapping[str, str]) -> None:
    """Show what a release would come to with such numbers of clients, records, groups and labels."""
    from fairshares.harness.forecast.plan import starting_s
    from fairshares.harness.forecast.requested import of_domain, planned
    from fairshares.harness.views import plan as view

    call = options.call
    records = call.source.records
    task = call.request.task
    others = [named(name) for name in options.stated(*options.names_of_runs(), "preprocess")]
    if others:
        raise OptionError(f"--plan runs nothing: leave out {', '.join(others)}.")
    of_file = not sizes["clients"]
    if bool(records) != of_file:
        raise OptionError(
            "--plan file is of the clients of --records: give both; or give a number of clients, and no "
            "records."
        )
    texts = {
        **call.planned_sizes(),
        "from_records": as_text(records),
    }
    if call.declares.domain and not of_file:
        declared = call.declares.of_kind(kind_of(task))
        assert declared is not None  # a file declares it
        texts |= of_domain(declared, task)
    with naming(IN_PLAN):
        plan = planned(
            call.request,
            Expected(**texts, **sizes),
            call.source.tabular() if of_file else None,
            started=partial(starting_s, _A_COMMAND),
        )
    shown = list(view.plan(plan))
    tell("plan", f"Plan of {task}", shown, lambda: view.to_json(plan), plot=options.plot)
