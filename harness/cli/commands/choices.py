"""What options that many commands share stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.cli import terminal as cli
from harness.cli.options import ShareOptions
from harness.cli.release_options import ConfusionOptions, ReleaseOptions
from harness.cli.train_options import TrainOptions
from harness.engines.registry import choose_model
from harness.errors import OptionError, PopulationError
from harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from harness.inputs.contribution_bounds import Cap
from harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    DEFAULT_STEPS,
    RecordDomain,
    RecordKind,
    ValueGrid,
    read_domain,
)
from harness.inputs.records import ScoreCut
from harness.privacy.ledger.charge import UNCHARGED, Account, chosen_ledger
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import key_of, listed, refuse_misspelt
from harness.releases.base import OWN
from harness.releases.contribution_cap import CAP_SHARE
from harness.releases.registry import STATISTICS
from harness.request.readers import parse_choice
from harness.security_models import Model
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Budget, Guarantee
from protocols.noise.tables import NoiseLaw
from protocols.spec import CLIENTS, SHARES, SLOTS, InputForm, InputPath, ProtocolSpec

_FINGERPRINT = re.compile("[0-9A-F]{2}(:[0-9A-F]{2}){31}")


def chosen_model(model: Model | None) -> Model:
    """Return the model that was named; without one the default, and say which that is."""
    chosen = model or choose_model(None)
    if model is None:
        cli.announce(f"Model: {chosen.name} (choose another with --model; ./inv schemes lists them)")
    return chosen


def chosen_hosts(path: Path, model: Model | None) -> tuple[list[Host], Model]:
    """Return a run's hosts, and the model: the named one, or what the number of hosts allows."""
    found = read_hosts(path)
    chosen = model or default_model(found)
    if model is None:
        cli.announce(f"Model: {chosen.name} (choose another with --model)")
    return hosts_for(chosen, found, path), chosen


def chosen_form(
    forms: Mapping[str, InputForm], name: str | None = None, path: InputPath = SHARES
) -> InputForm:
    """Return the input form of that name, by that path; the first form without a name.

    Raises: OptionError: there is none.
    """
    form = forms[parse_choice("--input-form", name, list(forms)) if name else next(iter(forms))]
    return form.by(path)


def chosen_spec(options: ReleaseOptions) -> ProtocolSpec:
    """Return the statistic's protocol: the variant that was chosen; where clients are the unit and their
    shares are at hand, the one that counts slots, unless another form is asked for.
    """
    statistic = STATISTICS[options.task]
    default = next(iter(statistic.specs))
    variant = options.texts[options.chooses] if options.chooses else default
    by_shares = options.input_path is not CLIENTS and not options.invite
    usual = SLOTS.name if options.privacy_unit is PrivacyUnit.CLIENT and by_shares else ""
    if statistic.slots and variant == default and (options.input_form or usual) == SLOTS.name:
        return statistic.slots
    return statistic.specs[str(variant)]


def chosen_law(noise: str, law: str) -> NoiseLaw | None:
    """Return the law of noise of the parties' own, None where noise is joint. Args: as options have them.

    Raises: OptionError: joint noise of another law than Laplace's.
    """
    chosen = NoiseLaw(law)
    if noise == OWN:
        return chosen
    if chosen is not NoiseLaw.LAPLACE:
        raise OptionError(
            f"Joint noise is Laplace's; --law {law} goes with --noise {OWN}, noise of the parties' own."
        )
    return None


def cap_and_release(options: ReleaseOptions) -> tuple[Guarantee, Guarantee]:
    """Divide --epsilon and --delta, as `--cap auto` does, into the cap's part and the release's.

    Raises: OptionError: --cap-epsilon leaves nothing.
    """
    total = Guarantee(options.epsilon, options.delta)
    of_cap = Guarantee(options.cap_epsilon or total.epsilon * CAP_SHARE, total.delta * CAP_SHARE)
    if of_cap.epsilon >= total.epsilon:
        said = options.given("cap_epsilon", "epsilon")
        raise OptionError(
            f"--cap-epsilon {said['cap_epsilon']} leaves nothing of --epsilon {said['epsilon']}, the total."
        )
    return of_cap, Guarantee(total.epsilon - of_cap.epsilon, total.delta - of_cap.delta)


def chosen_account(population: str | None, budget: Budget | None, ledger: Path | None) -> Account:
    """Return where a run is charged; say so if its population is a new one.

    Raises: PopulationError: nobody is named although the ledger has budgets, which would not hold then, or a
    new name may be a misspelt one; OptionError: a budget of nobody.
    """
    found = chosen_ledger(ledger)
    charged = population if population != UNCHARGED else None
    if budget and not charged:
        raise OptionError("--budget belongs to a population; name it with --population.")
    if charged:
        announce(found, charged, budget)
        return Account(found, charged, budget)
    guarded = [each.name for each in found.populations() if each.budget] if not population else []
    if guarded:
        raise PopulationError(
            f"{found.path} holds budgets, for {listed(guarded)}. Say whose records these are with "
            f"--population NAME; or, with --population {UNCHARGED}, that nobody counts what is spent."
        )
    return Account(found)


def announce(ledger: Ledger, name: str, budget: Budget | None) -> None:
    """Say that a population is new, if it is. Raises: PopulationError: it may be a misspelt one."""
    known = ledger.populations()
    if key_of(name) not in {key_of(each.name) for each in known}:
        if budget is None:
            refuse_misspelt(name, known, ledger.path)
        cli.announce(f"New population {name!r} in {ledger.path}")


def declared_domain(
    options: ReleaseOptions | ShareOptions | TrainOptions, *, of_values: bool = False
) -> RecordDomain | None:
    """Return the domain that the options declare, None if they leave it to be inferred.

    Args: of_values: whether records are performance values, with --range and --steps.
    Raises: OptionError: options do not go together; RecordDomainError: what they declare is no domain.
    """
    if (
        of_values
        and not isinstance(options, TrainOptions)
        and (options.range or options.steps or not options.domain)
    ):
        return _declared_values(options)
    if options.domain:
        if options.groups or options.labels or options.max_count:
            raise OptionError(
                "Declare the domain either by --domain or by --groups, --labels and --max-count."
            )
        return read_domain(options.domain)
    if bool(options.groups) != bool(options.labels):
        raise OptionError("--groups and --labels go together: declare both.")
    if not options.groups or not options.labels:
        return None
    return RecordDomain(
        tuple(sorted(options.groups)), tuple(sorted(options.labels)), options.max_count or DEFAULT_MAX_COUNT
    )


def _declared_values(options: ReleaseOptions | ShareOptions) -> RecordDomain:
    if options.domain or options.labels or options.max_count or not (options.groups and options.range):
        raise OptionError(
            "Declare performance values by --groups and --range and, if wanted, --steps; or all by --domain."
        )
    values = ValueGrid(*options.range, options.steps or DEFAULT_STEPS)
    return RecordDomain(tuple(sorted(options.groups)), (), 1, kind=RecordKind.VALUE, values=values)


def score_cut(options: ConfusionOptions | ShareOptions) -> ScoreCut | None:
    """Return how predictions follow from scores; None: they do not. Raises: OptionError."""
    if options.threshold is None:
        if options.positive_label and isinstance(options, ShareOptions):
            raise OptionError(
                "--positive-label is the label that --threshold predicts; give both, or neither."
            )
        return None
    return ScoreCut(options.threshold, options.positive_label or "", str(options.texts["threshold"]))


def with_cap(domain: RecordDomain, cap: Cap | None, unit: PrivacyUnit) -> RecordDomain:
    """Return the domain with the cap that the option says, 1 for clients with one value; its own stays.

    Raises: OptionError: it has another, or a client has fewer records at most.
    """
    only_one = Cap(1) if domain.values and unit is PrivacyUnit.CLIENT else None
    chosen = cap or domain.cap or only_one
    if chosen is None:
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


def read_fingerprints(path: Path) -> list[str]:
    """Read a fingerprint per line, as `openssl x509 -fingerprint` writes it, with its name or without.

    Raises: OptionError: the file holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise OptionError(f"Cannot read --fingerprints {path}.") from None
    found = [line.rpartition("=")[2].strip().upper() for line in lines if line.strip()]
    if not found or not all(map(_FINGERPRINT.fullmatch, found)):
        raise OptionError(
            f"{path} must hold a line for each party, 0 first: the SHA-256 of its certificate, as "
            "openssl x509 -fingerprint -sha256 writes it."
        )
    return found
