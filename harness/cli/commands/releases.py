"""Releases."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairshares.harness.charged import UNCHARGED
from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.commands.choices import chosen_hosts
from fairshares.harness.cli.report import present, tell
from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import naming
from fairshares.harness.pipeline.preprocessing import MadeNoise
from fairshares.harness.pipeline.release import (
    cap_directory,
    chooses_cap,
    invited_source,
    make_noise_ahead,
    run_on_records,
    settings_of,
)
from fairshares.harness.pipeline.run import Run, run_release
from fairshares.harness.pipeline.sources import InvitedSource, SharesSource
from fairshares.harness.privacy.ledger.charge import account_read
from fairshares.harness.releases.base import Answer, statistic_of
from fairshares.harness.releases.cap import view as cap_view
from fairshares.harness.releases.cap.statistic import ChosenCap
from fairshares.harness.request.commands import ReleaseOptions, refuse_beside_noise, refuse_beside_plan
from fairshares.harness.request.plans import IN_PLAN
from fairshares.harness.request.releases import Invited, ReleaseCall
from fairshares.harness.request.request import Request, Trust
from fairshares.harness.system.result_files import default_out
from fairshares.harness.views import run_summary as run_view
from fairshares.harness.views.ledger import charge
from fairshares.harness.views.parts import Part
from fairshares.protocols.guarantee import Guarantee

if TYPE_CHECKING:
    from fairshares.harness.hosts.runner import HostsBackend

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
    if options.instead.plan is not None:
        _plan(options, options.instead.plan.sizes)
        return
    if options.instead.preprocess is not None:
        refuse_beside_noise(options)
        with cli.steps({**run_view.HOST_STEPS, **view.steps}) as begin:
            made = _make_noise(options, options.instead.preprocess, begin)
        show_noise(made)
        return
    run = released(options, view.steps)
    manifest = run.manifest
    answer: list[Part] = []
    answer.extend(view.records(options.call, run.found))
    answer.extend(view.show(run.found, manifest))
    after: list[Part] = []
    if chooses_cap(options.call):
        after.extend(cap_view.chosen_cap(manifest, cap_directory(run.out)))
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
        problem=view.problem(run.found),
    )


def released(options: ReleaseOptions, steps: Mapping[str, str]) -> Run[Answer]:
    """Run a release, here or at its hosts."""
    call = options.call
    hosts = None
    if options.hosts:
        call, hosts = _at_hosts(call, options.hosts)
    invited = options.invited()
    settings = settings_of(call, hosts, cli.announce, invited)
    out = call.where.out or default_out(call.request.task)
    with cli.steps({**run_view.HOST_STEPS, **run_view.CAP_STEPS, **steps}) as begin:
        if call.source.records:
            return run_on_records(
                call, call.source.tabular(), settings, out, begin, say_cap=_say_cap, say=cli.announce
            )
        statistic = statistic_of(settings.release)
        sent = None if invited is None else _invited(call, invited, settings.release)
        if hosts is not None:
            from fairshares.harness.hosts.runner import run_at_hosts  # slow to load

            return run_at_hosts(statistic, hosts, settings, out, begin, sent=sent)
        if sent is not None:
            return run_release(statistic, sent, settings, out, begin)
        assert call.source.shares is not None  # the settings' checks have found them
        return run_release(statistic, SharesSource(call.source.shares), settings, out, begin)


def _at_hosts(call: ReleaseCall, file: Path) -> tuple[ReleaseCall, "HostsBackend"]:
    """Return a call with the model of its hosts, and these hosts."""
    from fairshares.harness.hosts.runner import HostsBackend  # slow to load

    fleet, model = chosen_hosts(file, call.request.trust)
    return call.but(Trust.security, model), HostsBackend(fleet, model)


def _say_cap(chosen: ChosenCap, clients: int, left: Guarantee) -> None:
    cli.announce(*cap_view.going_on_with(chosen, clients, left))


def _invited(call: ReleaseCall, invited: Invited, request: Request) -> InvitedSource:
    """Return the source of a run to which clients are invited, and say how they send."""
    source = invited_source(call, invited, request)
    cli.announce(
        f"Each of {invited.clients} clients sends by ./inv send --records FILE --invitation "
        f"{invited.directory / 'client-<k>.json'}, k from 0, once that file is there."
    )
    return source


def show_noise(made: MadeNoise) -> None:
    """Show where noise that was made ahead is, and its costs."""
    shown = run_view.preprocessed(made.place, made.seconds, made.sent_bytes)
    cli.show_or_print(made.to_json(), *shown)


def _make_noise(options: ReleaseOptions, runs: int, begin: Progress) -> MadeNoise:
    """Make the noise of so many runs of a release, at its hosts or here."""
    if not options.hosts:
        return make_noise_ahead(options.call, runs, begin)
    from fairshares.harness.hosts.runner import make_noise_at_hosts  # slow to load

    call, hosts = _at_hosts(options.call, options.hosts)
    return make_noise_at_hosts(hosts, call, runs, begin)


def _plan(options: ReleaseOptions, sizes: Mapping[str, str]) -> None:
    """Show what a release would come to with such numbers of clients, records, groups and labels."""
    from fairshares.harness.forecast.requested import expected_of, planned
    from fairshares.harness.views import plan as view

    call = options.call
    refuse_beside_plan(options)
    expected = expected_of(call, sizes)
    account = account_read(call.request.population, call.account.ledger)
    with naming(IN_PLAN):
        records = call.source.tabular() if expected.from_records else None
        plan = planned(call.request, expected, records, command=_A_COMMAND, account=account)
    shown = list(view.plan(plan))
    title = f"Plan of {call.request.task}"
    tell("plan", title, shown, partial(view.to_json, plan), plot=options.plot)
