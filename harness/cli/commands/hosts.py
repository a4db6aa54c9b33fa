"""`hosts.*`: parties on several hosts."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.commands.choices import chosen_hosts
from fairshares.harness.cli.options import (
    HostsCheckOptions,
    HostsCleanOptions,
    HostsCollectOptions,
    HostsLogOptions,
    HostsPolicyOptions,
    HostsRestoredOptions,
    HostsSetupOptions,
)
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import HostUnfitError, OptionError, WriteError, cannot
from fairshares.harness.hosts.fleet import LOOKED_AT, Finding, check_hosts, clean_up, leftover_runs, set_up
from fairshares.harness.hosts.health import look_at, write_metrics
from fairshares.harness.hosts.host_log import LOG_FILE, read_log
from fairshares.harness.hosts.inventory import default_model, hosts_for, read_hosts
from fairshares.harness.hosts.policy import (
    DEFAULT_PORT,
    LEDGER,
    POLICY_FILE,
    check_is_host,
    checked_policy,
    first_policy,
    no_host,
    read_policy,
    write_policy,
)
from fairshares.harness.hosts.restoring import LostRuns, restore
from fairshares.harness.hosts.setup import exported, set_up_here
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import spent_text
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import state_loss
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import default_out, new_directory, write_json
from fairshares.harness.views import hosts as view
from fairshares.harness.views.run_summary import results


def check(options: HostsCheckOptions) -> None:
    """Check every host of a file or, for its owner, this one."""
    if options.directory is not None:
        _check_this(options.directory, options.metrics)
        return
    if options.metrics is not None:
        raise OptionError("--metrics is of one host, by its owner; name its --directory.")
    hosts, chosen = chosen_hosts(options.hosts, options.trust)
    with cli.steps(view.CHECK_STEPS) as begin:
        findings = check_hosts(hosts, chosen, begin)
    rows = [finding.to_json() for finding in findings]
    shown = [checked(finding) for finding in findings]
    cli.show_or_print(rows, *view.findings(shown, LOOKED_AT, chosen.title))
    wrong = sum(bool(finding.faults) for finding in findings)
    if wrong:
        raise HostUnfitError(
            f"{wrong} of {len(hosts)} hosts cannot take their part in a run of model {chosen.title} yet."
        )


def _check_this(directory: Path, metrics: Path | None) -> None:
    """Check this machine's host.

    Raises:
        OptionError: The directory is no host's directory.
        WriteError: The file of metrics cannot be written.
        HostUnfitError: Something keeps runs from their end there.
    """
    if not directory.is_dir():
        raise no_host(directory)
    health = look_at(directory)
    if metrics is not None:
        with cannot(f"write {metrics}", WriteError):
            write_metrics(metrics, health)
    cli.show_or_print(health.to_json(), *view.health(health))
    if health.faults:
        raise HostUnfitError(f"{directory} cannot take its part in runs: {', '.join(health.faults)}.")


def checked(finding: Finding) -> view.CheckedHost:
    """Return the facts of a finding that are shown."""
    notices: Sequence[str] = ()
    party_can: Sequence[str] = ()
    engine_version = ""
    if finding.answer is not None:
        facts = finding.answer.facts
        notices = facts.notices
        party_can = [protection.value for protection in facts.unprotected]
        engine_version = facts.engine_version or ""
    return view.CheckedHost(
        party=finding.host.party,
        address=finding.host.address,
        marks=finding.marks(),
        faults=list(finding.faults.values()),
        notices=notices,
        party_can=party_can,
        engine_version=engine_version,
    )


def setup(options: HostsSetupOptions) -> None:
    """Set up all hosts or, for its owner, this one."""
    text = None
    if options.policy and (options.security or options.parties):
        given = "--security" if options.security else "--parties"
        raise OptionError(f"{given} is for the usual policy; leave it out, as --policy names its own models.")
    if options.policy:
        checked_policy(options.policy, str(options.policy))
        text = options.policy.read_text(encoding="utf-8")
    if options.directory is None:
        _set_up_all(options, text)
    else:
        _set_up_this(options, options.directory, text)


def _set_up_all(options: HostsSetupOptions, policy_text: str | None) -> None:
    """Set up all hosts of a file, each with this policy, or with the usual one where it has none."""
    if options.party is not None or options.pin or options.lost:
        raise OptionError("--party, --pin and --lost are for one host, by its owner; name its --directory.")
    hosts = read_hosts(options.hosts)
    chosen = _sized(options.security or [default_model(hosts, options.parties)], options.parties)
    for model in chosen:
        hosts_for(model, hosts, options.hosts)
    with cli.steps(view.SETUP_STEPS) as begin:
        certificates = set_up(hosts, options.renew, policy_text, begin, [model.title for model in chosen])
    if policy_text is None:
        cli.announce(_accepted(chosen, "New policies accept"))
    cli.show(view.certificates({host.party: host.address for host in hosts}, certificates))


def _set_up_this(options: HostsSetupOptions, directory: Path, policy_text: str | None) -> None:
    """Set up this host in its directory, with this policy, or with the usual one if it has none."""
    if options.party is None:
        raise OptionError("--directory is of one host; say by --party which party's.")
    is_new = policy_text is None and not (directory / POLICY_FILE).exists()
    chosen = _sized(options.security or [choose_model(None, options.parties)], options.parties)
    certificates = set_up_here(
        directory,
        options.party,
        renew=options.renew,
        policy_text=policy_text,
        others=[Path(name) for name in options.pin or []],
        models=[model.title for model in chosen],
        lost=options.lost or [],
    )
    if is_new:
        cli.announce(_accepted(chosen, "The new policy accepts"))
    parties = next(iter(certificates.values()))  # the same for every engine
    accepted = {party: "this host" if party == options.party else "" for party in parties}
    cli.show(view.certificates(accepted, certificates, exported(directory, options.party)))


def _sized(models: Sequence[SecurityModel], parties: int | None) -> list[SecurityModel]:
    """Return these models of so many parties, or of their usual numbers; raise OptionError as `get_model`."""
    if parties is None:
        return list(models)
    return [model.with_parties(parties) for model in models]


def _accepted(models: Sequence[SecurityModel], what: str) -> str:
    """Return a sentence on the models whose runs a policy accepts; `what` begins it."""
    names = ", ".join(model.title for model in models)
    return f"{what} runs of {names} and of no other model (choose with --security, or by the line security)."


def policy(options: HostsPolicyOptions) -> None:
    """Check and show a host's policy."""
    directory = options.directory
    if not directory.is_dir():
        raise OptionError(
            f"There is no directory {directory}; make it by ./inv hosts.setup --party N --directory DIR."
        )
    if (directory / POLICY_FILE).exists() and (options.security or options.parties):
        given = "--security" if options.security else "--parties"
        raise OptionError(
            f"{directory / POLICY_FILE} is there already, and {given} is for a new one; change its lines "
            "`security` instead."
        )
    if not (directory / POLICY_FILE).exists():
        chosen = _sized(options.security or [choose_model(None, options.parties)], options.parties)
        write_policy(directory, first_policy([model.title for model in chosen]), DEFAULT_PORT)
        cli.announce(f"{directory / POLICY_FILE} is new; edit it, and run this again to check it.")
        cli.announce(_accepted(chosen, "It accepts"))
    rules = read_policy(directory)
    populations = Ledger(directory / LEDGER).populations()
    spent = {population.name: as_json(state_loss(population.spent)) for population in populations}
    cli.show_or_print(
        {**rules.to_json(), "spent": spent},
        *view.policy(directory, rules.host_rules, rules.notices, populations),
    )


def log(options: HostsLogOptions) -> None:
    """Show a host's log."""
    check_is_host(options.directory)
    found = read_log(options.directory)
    cli.show_or_print(
        {
            "events": [asdict(line) for line in found.lines],
            "unreadable": found.unreadable,
            "open_to_others": found.is_open,
        },
        *view.log(
            options.directory / LOG_FILE, found.lines, options.last, found.unreadable, is_open=found.is_open
        ),
    )


def restored(options: HostsRestoredOptions) -> None:
    """Restore a ledger's lost charges."""
    lost = LostRuns(
        population=options.population,
        spent=options.guarantee,
        seen=options.seen,
        unit=options.privacy_unit,
        relation=options.neighboring_relation,
    )
    event = restore(options.directory, lost)
    cli.show(
        f"Charged to population {options.population!r}: {spent_text(event.exact)}. "
        "Hosts that have seen this one's lost charges go on with it. Noise that was made ahead is removed."
    )


def collect(options: HostsCollectOptions) -> None:
    """Write the unread results of runs."""
    with cli.steps(view.COLLECT_STEPS) as begin:
        runs = leftover_runs(read_hosts(options.hosts), begin)
    if not runs:
        cli.show("No host has results of a run that nobody has read.")
        return
    target = options.out or default_out("hosts.collect")
    with new_directory(target) as partial:
        for run in runs:
            write_json(partial / f"{run.run}.json", as_json(run))
    cli.show(view.leftover_runs(runs), results(target))


def clean(options: HostsCleanOptions) -> None:
    """Remove runs' remains on hosts."""
    hosts = read_hosts(options.hosts)
    with cli.steps(view.CLEAN_STEPS) as begin:
        removed = clean_up(hosts, begin)
    cli.show(view.removed({host.title: counts for host, counts in zip(hosts, removed, strict=True)}))
