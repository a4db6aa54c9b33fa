"""`share`, `aggregate` and `send`: clients' steps, and a party's."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.cli.commands.choices import chosen_form, declared_domain, with_cap
from harness.cli.options import (
    parse_choice,
    parse_epsilon,
    parse_party,
    parse_seconds,
    parse_threshold,
    parse_upload_clients,
    require,
)
from harness.cli.terminal import command, plain, say
from harness.clients.invitations import read_invitation
from harness.clients.session import Server
from harness.engines.parties.certificates import fingerprint
from harness.engines.registry import choose_model
from harness.errors import OptionError, ShareError
from harness.inputs import aggregation
from harness.inputs.aggregation import (
    HINT,
    UNDECLARED,
    UploadPolicy,
    described,
    paths_of,
    read_lists,
    uploads_at,
    write_uploads,
)
from harness.inputs.encoding import columns_of, shared_over
from harness.inputs.record_schema import RecordKind, read_domain
from harness.inputs.records import read_records
from harness.inputs.shares import SUFFIX, share_in_parts
from harness.pipeline.terms import Terms, read_terms
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.accounting.rounding import digits_up
from protocols.circuits.clients import CHECKS
from protocols.spec import (
    PI_CAP,
    PI_CF,
    PI_CF_SLOTS,
    PI_GAP,
    PI_GAP_SLOTS,
    PI_ROC,
    PI_ROC_PUBLISHED,
    PI_ROC_RECORDS,
    PI_RW,
    PI_RW_SLOTS,
    SLOTS,
)

_FINGERPRINT = re.compile("[0-9A-F]{2}(:[0-9A-F]{2}){31}")
_CHANGES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record of yours added or removed",
    NeighboringRelation.REPLACE_ONE: "one record of yours replaced by another",
    NeighboringRelation.ZERO_OUT_ONE: "all records of yours together, there or not",
}

# What a command needs of records: how they are shared, and what one holds besides its group and label.
TASKS = {
    "weights": ({**PI_RW.input_forms, **PI_RW_SLOTS.input_forms}, RecordKind.NONE),
    "confusion": ({**PI_CF.input_forms, **PI_CF_SLOTS.input_forms}, RecordKind.PREDICTION),
    "cap": (PI_CAP.input_forms, RecordKind.SIZE),
    "gap": ({**PI_GAP.input_forms, **PI_GAP_SLOTS.input_forms}, RecordKind.VALUE),
    "thresholds": (
        {**PI_ROC.input_forms, **PI_ROC_RECORDS.input_forms, **PI_ROC_PUBLISHED.input_forms},
        RecordKind.SCORE,
    ),
}


@command
def share(
    records: str,
    out: str,
    task: str,
    declared: tuple[str, str, str, str],
    model: str,
    input_form: str,
    threshold: str,
    values: tuple[str, str],
    cap: str,
) -> None:
    """Write one share file per party for the clients of a records file."""
    require({"--records": records, "--out": out})
    forms, detail = TASKS[parse_choice("--task", task, list(TASKS))]
    if any(values) and detail is not RecordKind.VALUE:
        raise OptionError("--range and --steps go with --task gap only.")
    domain = declared_domain(*declared, values if detail is RecordKind.VALUE else None)
    if domain is None:
        raise OptionError(
            "share needs --domain, or --groups and --labels: one client's file cannot tell what others have."
        )
    domain = with_cap(domain, cap, PrivacyUnit.RECORD)
    chosen = choose_model(model or None)
    if domain.cap and not input_form and SLOTS.name in forms:
        input_form = SLOTS.name
    form = chosen_form(forms, input_form)
    score = parse_threshold(threshold) if threshold else None
    if score is not None and detail is not RecordKind.PREDICTION:
        raise OptionError("--threshold makes predictions from scores; it goes with --task confusion only.")
    found = read_records(Path(records), domain, may_be_empty=True, kind=detail, positive_from=score)
    over = shared_over(form, chosen.domain)
    batches = share_in_parts(found, form, over, chosen.parties, Path(out))
    clients = "1 client" if found.clients == 1 else f"{found.clients:,} clients"
    uploads = batches[0] if len(batches) == 1 else f"<{len(batches)} uploads>"
    say(
        f"Shared {clients} for the {chosen.parties} parties of model {chosen.name}: "
        f"{plain(str(Path(out) / 'party-<i>' / (uploads + SUFFIX)))}. "
        "Send each party its own file only, and share once: a second upload counts as another client's."
    )


@command
def uploads(party: str, shares: str, domain: str, most: str, out: str) -> None:
    """Write which uploads one party has and takes, for all parties to see."""
    require({"--party": party, "--shares": shares, "--out": out})
    number = parse_party(party)
    rules = UploadPolicy(read_domain(Path(domain)) if domain else None, parse_upload_clients(most))
    found = uploads_at(number, _own(Path(shares), number), rules)
    write_uploads(found, Path(out))
    why = Counter(sorted(found.unsound.values()))
    said = f" Others: {described(why)}." if why else ""
    say(f"Party {number}: {len(found.sound)} uploads are sound here.{said} List: {plain(out)}.")
    if UNDECLARED in why:
        say(HINT)


@command
def aggregate(party: str, shares: str, lists: str, out: str) -> None:
    """Write what one party feeds into a run."""
    require({"--party": party, "--shares": shares, "--out": out})
    number = parse_party(party)
    directory = _own(Path(shares), number)
    taken, left_out = None, ""
    if lists:
        agreement = read_lists(Path(lists))
        taken = paths_of(agreement.taken, uploads_at(number, directory), directory)
        left_out = described(agreement.left_out)
    header = aggregation.aggregate(number, directory, Path(out), taken)
    if left_out:
        say(f"Uploads left out, by all parties alike: {left_out}.")
    say(
        f"Party {number}: {header.batches} uploads of {header.clients} clients in {plain(out)}. "
        f"Uploads' fingerprint, the same at every party: {header.batch[:16]}."
    )


def _own(directory: Path, party: int) -> Path:
    """Return where a party's files are: in a directory with all parties', or in one of its own."""
    own = directory / f"party-{party}"
    return own if own.is_dir() else directory


@command
def send(records: str, invitation: str, timeout: str, most: str, fingerprints: str) -> None:
    """Send one client's values to the running parties that its invitation names.

    Args: most: --epsilon, the largest that the client accepts; empty for any; fingerprints: a file with
    those of the only parties' certificates that it accepts; empty for any.
    """
    require({"--records": records, "--invitation": invitation})
    seconds = parse_seconds(timeout)
    accepted = parse_epsilon(most) if most else None
    known = _fingerprints(Path(fingerprints)) if fingerprints else None
    found = read_invitation(Path(invitation))
    terms = read_terms(found.terms, invitation)
    epsilon = terms.settings.epsilon
    for sentence in (*_sentences(terms), *_servers(found.servers, invitation, known)):
        say(plain(sentence))  # before anything is sent
    if accepted is not None and epsilon > accepted:
        raise OptionError(
            f"This run spends ε = {digits_up(epsilon, 4)}, and --epsilon {most} is the most that you "
            "accept; nothing was sent."
        )
    own = read_records(Path(records), terms.domain, may_be_empty=True)
    if own.clients != 1:
        raise OptionError(f"{records} holds records of {own.clients} clients; an invitation is for one.")
    sent = asyncio.run(found.send(columns_of(own, terms.settings.form).ravel(), seconds))
    say(
        f"Client {found.client}: all {len(found.servers)} parties have its values, masked, on these terms "
        f"({sent:,} bytes to each)."
    )


def _sentences(terms: Terms) -> list[str]:
    """Return what a client agrees to; parties that run on other terms get nothing."""
    settings, opened = terms.settings, "; ".join(terms.statistic.spec.revealed)
    model = settings.model
    behaviour = "keeps to the protocol but looks at all it receives, learns nothing more"
    if model.tolerates == "active":
        behaviour = (
            "may deviate from the protocol, learns nothing more and changes no value unnoticed, but for a "
            f"probability of 2^-{CHECKS} each"
        )
    return [
        f"The run opens: {opened}. Guarantee: (ε, δ)-differential privacy with ε = "
        f"{digits_up(settings.epsilon, 4)} and δ = {digits_up(settings.delta, 4)} in total, for "
        f"{_CHANGES[terms.relation]}.",
        f"Computation: {model.parties} parties, model {model.name}: any {model.corruptions} of them, which "
        f"{behaviour}. Whoever runs more of them can see your values.",
    ]


def _servers(servers: Sequence[Server], invitation: str, known: Sequence[str] | None) -> list[str]:
    """Return who the parties are. Raises: ShareError: a certificate is not the known one, or is none."""
    try:
        found = [fingerprint(server.certificate.encode()) for server in servers]
    except ValueError:
        raise ShareError(f"{invitation} holds something else than parties' certificates.") from None
    if known is not None and found != list(known):
        raise ShareError(
            f"The parties in {invitation} have other certificates than --fingerprints names, in the order of "
            "the parties; nothing was sent. Ask the owners of their hosts, not whoever sent the invitation."
        )
    return [
        f"Party {i}: {server.host}:{server.port}, SHA-256 of its certificate {one}."
        for i, (server, one) in enumerate(zip(servers, found, strict=True))
    ]


def _fingerprints(path: Path) -> list[str]:
    """Read a fingerprint per line, as `openssl x509 -fingerprint` writes it, with its name or without."""
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
