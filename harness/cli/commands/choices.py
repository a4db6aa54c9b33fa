"""What options that many commands share stand for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.cli import terminal as cli
from harness.cli.options import (
    parse_budget,
    parse_cap,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_names,
    parse_population,
    parse_range,
    parse_whole,
)
from harness.cli.terminal import say
from harness.engines.registry import choose_model
from harness.errors import OptionError, PopulationError
from harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from harness.inputs.contribution_bounds import Cap
from harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    DEFAULT_STEPS,
    MAX_STEPS,
    RecordDomain,
    RecordKind,
    ValueGrid,
    read_domain,
)
from harness.privacy.ledger.charge import Account
from harness.privacy.ledger.entries import DEFAULT_PATH, Ledger
from harness.privacy.ledger.populations import listed
from harness.releases.contribution_cap import CAP_SHARE
from harness.security_models import Model, get_model
from protocols.accounting.calibration import PrivacyUnit
from protocols.noise.truncated import Guarantee
from protocols.spec import PATHS, SHARES, InputForm

LEDGER_VARIABLE = "FAIRSHARES_LEDGER"
UNCHARGED = "none"  # what a user says of records whose privacy nobody has to count


def chosen_model(name: str) -> Model:
    """Return the model of that name; without one the default, and say which that is."""
    chosen = choose_model(name or None)
    if not name:
        say(f"Model: {chosen.name} (choose another with --model; ./inv schemes lists them)", cli.err)
    return chosen


def chosen_hosts(path: str, model: str) -> tuple[list[Host], Model]:
    """Return a run's hosts, and the model: the named one, or what the number of hosts allows."""
    found = read_hosts(Path(path))
    chosen = get_model(model) if model else default_model(found)
    if not model:
        say(f"Model: {chosen.name} (choose another with --model)", cli.err)
    return hosts_for(chosen, found, Path(path)), chosen


def chosen_form(forms: Mapping[str, InputForm], name: str, path: str = SHARES.name) -> InputForm:
    """Return the input form of that name, by that path; the first form without a name.

    Raises: OptionError: there is none.
    """
    form = forms[parse_choice("--input-form", name, list(forms)) if name else next(iter(forms))]
    return form.by(PATHS[parse_choice("--input-path", path, list(PATHS))])


def cap_and_release(epsilon: str, delta: str, cap_epsilon: str) -> tuple[Guarantee, Guarantee]:
    """Divide --epsilon and --delta, as `--cap auto` does, into the cap's part and the release's.

    Raises: OptionError: --cap-epsilon leaves nothing.
    """
    total = Guarantee(parse_epsilon(epsilon), parse_delta(delta))
    of_cap = Guarantee(
        parse_epsilon(cap_epsilon, "--cap-epsilon") if cap_epsilon else total.epsilon * CAP_SHARE,
        total.delta * CAP_SHARE,
    )
    if of_cap.epsilon >= total.epsilon:
        raise OptionError(f"--cap-epsilon {cap_epsilon} leaves nothing of --epsilon {epsilon}, the total.")
    return of_cap, Guarantee(total.epsilon - of_cap.epsilon, total.delta - of_cap.delta)


def chosen_account(population: str, budget: str, ledger: str) -> Account:
    """Return where a run is charged.

    Raises: PopulationError: nobody is named although the ledger has budgets, which would not hold then.
    """
    found = chosen_ledger(ledger)
    if population not in ("", UNCHARGED):
        return Account(found, parse_population(population), parse_budget(budget) if budget else None)
    if budget:
        raise OptionError("--budget is a population's; name it with --population.")
    guarded = [each.name for each in found.populations() if each.budget] if not population else []
    if guarded:
        raise PopulationError(
            f"{found.path} holds budgets, for {listed(guarded)}. Say whose records these are with "
            f"--population NAME; or, with --population {UNCHARGED}, that nobody counts what is spent."
        )
    return Account(found)


def chosen_ledger(path: str) -> Ledger:
    """Return the ledger in that file, else in $FAIRSHARES_LEDGER, else beside the runs."""
    chosen = path or os.environ.get(LEDGER_VARIABLE, "")
    return Ledger(Path(chosen).expanduser() if chosen else DEFAULT_PATH)


def declared_domain(
    domain: str, groups: str, labels: str, max_count: str, values: tuple[str, str] | None = None
) -> RecordDomain | None:
    """Return the domain that the options declare, None if they leave it to be inferred.

    Args: values: --range and --steps, where records are performance values.
    """
    if values is not None and (any(values) or not domain):
        return _declared_values(domain, groups, labels or max_count, *values)
    if domain:
        if groups or labels or max_count:
            raise OptionError(
                "Declare the domain either by --domain or by --groups, --labels and --max-count."
            )
        return read_domain(Path(domain))
    if bool(groups) != bool(labels):
        raise OptionError("--groups and --labels go together: declare both.")
    if not groups:
        return None
    return RecordDomain(
        tuple(sorted(parse_names("--groups", groups))),
        tuple(sorted(parse_names("--labels", labels))),
        parse_max_count(max_count) if max_count else DEFAULT_MAX_COUNT,
    )


def with_cap(domain: RecordDomain, cap: str, unit: PrivacyUnit) -> RecordDomain:
    """Return the domain with the cap that the option says, 1 for clients with one value; its own stays.

    Raises: OptionError: it has another, or a client has fewer records at most.
    """
    if cap:
        chosen = parse_cap(cap)
    elif domain.cap:
        chosen = domain.cap
    elif domain.values and unit is PrivacyUnit.CLIENT:
        chosen = Cap(1)
    else:
        return domain
    if domain.cap not in (None, chosen):
        raise OptionError(
            "The domain file says how much of a client counts; leave out --cap, or say the same."
        )
    if chosen.slots > domain.max_count and not chosen.weight_one:
        raise OptionError(
            f"A cap of {chosen.slots} is above the {domain.max_count} records that a client has at most, and "
            f"costs noise for nothing; say {domain.max_count} or less, or declare a larger maximum "
            "(max_count in a domain file, or --max-count)."
        )
    return replace(domain, cap=chosen)


def _declared_values(domain: str, groups: str, others: str, ends: str, steps: str) -> RecordDomain:
    if domain or others or not (groups and ends):
        raise OptionError(
            "Declare performance values by --groups and --range and, if wanted, --steps; or all by --domain."
        )
    most = parse_whole("--steps", steps, 1, MAX_STEPS) if steps else DEFAULT_STEPS
    return RecordDomain(
        tuple(sorted(parse_names("--groups", groups))),
        (),
        1,
        kind=RecordKind.VALUE,
        values=ValueGrid(*parse_range(ends), most),
    )
