"""`share`, `aggregate` and `send`: clients' steps, and a party's."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

from harness import sharing
from harness.agreeing import (
    HINT,
    UNDECLARED,
    described,
    paths_of,
    read_lists,
    uploads_at,
    write_uploads,
)
from harness.cli import command, plain, say
from harness.clients.invitations import Invitation, read_invitation
from harness.commands.chosen import chosen_form, declared_domain, with_cap
from harness.errors import OptionError, ShareError
from harness.layouts import columns_of, shared_over
from harness.models import get_model
from harness.options import parse_choice, parse_epsilon, parse_party, parse_seconds, parse_threshold, require
from harness.records import Detail, domain_from_json, read_domain, read_records
from harness.rounding import digits_up
from harness.schemes import choose_model
from protocols.budget import NeighboringRelation, PrivacyUnit
from protocols.circuits.clients import CHECKS
from protocols.spec import (
    CLIENTS,
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

_POSITIVE = re.compile("[1-9][0-9]{0,199}(/[1-9][0-9]{0,199})?")
_CHANGES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record of yours added or removed",
    NeighboringRelation.REPLACE_ONE: "one record of yours replaced by another",
    NeighboringRelation.ZERO_OUT_ONE: "all records of yours together, there or not",
}
_OPENED = {"weights": PI_RW.revealed}  # by the task that an invitation names

# What a command needs of records: how they are shared, and what one holds besides its group and label.
TASKS = {
    "weights": ({**PI_RW.input_forms, **PI_RW_SLOTS.input_forms}, Detail.NONE),
    "confusion": ({**PI_CF.input_forms, **PI_CF_SLOTS.input_forms}, Detail.PREDICTION),
    "cap": (PI_CAP.input_forms, Detail.SIZE),
    "gap": ({**PI_GAP.input_forms, **PI_GAP_SLOTS.input_forms}, Detail.VALUE),
    "thresholds": (
        {**PI_ROC.input_forms, **PI_ROC_RECORDS.input_forms, **PI_ROC_PUBLISHED.input_forms},
        Detail.SCORE,
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
    if any(values) and detail is not Detail.VALUE:
        raise OptionError("--range and --steps go with --task gap only.")
    domain = declared_domain(*declared, values if detail is Detail.VALUE else None)
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
    if score is not None and detail is not Detail.PREDICTION:
        raise OptionError("--threshold makes predictions from scores; it goes with --task confusion only.")
    found = read_records(Path(records), domain, may_be_empty=True, detail=detail, positive_from=score)
    over = shared_over(form, chosen.domain)
    batches = sharing.share_in_parts(found, form, over, chosen.parties, Path(out))
    clients = "1 client" if found.clients == 1 else f"{found.clients:,} clients"
    uploads = batches[0] if len(batches) == 1 else f"<{len(batches)} uploads>"
    say(
        f"Shared {clients} for the {chosen.parties} parties of model {chosen.name}: "
        f"{plain(str(Path(out) / 'party-<i>' / (uploads + sharing.SUFFIX)))}. "
        "Send each party its own file only, and share once: a second upload counts as another client's."
    )


@command
def uploads(party: str, shares: str, domain: str, out: str) -> None:
    """Write which uploads one party has and takes, for all parties to see."""
    require({"--party": party, "--shares": shares, "--out": out})
    number = parse_party(party)
    declared = read_domain(Path(domain)) if domain else None
    found = uploads_at(number, _own(Path(shares), number), declared)
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
    header = sharing.aggregate(number, directory, Path(out), taken)
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
def send(records: str, invitation: str, timeout: str, most: str) -> None:
    """Send one client's values to the running parties that its invitation names.

    Args: most: --epsilon, the largest that the client accepts; empty for any.
    """
    require({"--records": records, "--invitation": invitation})
    seconds = parse_seconds(timeout)
    accepted = parse_epsilon(most) if most else None
    found = read_invitation(Path(invitation))
    epsilon, sentences = _terms(found, invitation)
    for sentence in sentences:  # before anything is sent
        say(plain(sentence))
    if accepted is not None and epsilon > accepted:
        raise OptionError(
            f"This run spends ε = {digits_up(epsilon, 4)}, and --epsilon {most} is the most that you "
            "accept; nothing was sent."
        )
    domain = domain_from_json(found.terms.get("domain"), invitation)
    own = read_records(Path(records), domain, may_be_empty=True)
    if own.clients != 1:
        raise OptionError(f"{records} holds records of {own.clients} clients; an invitation is for one.")
    form = chosen_form(PI_RW.input_forms, str(found.terms.get("input_form")), CLIENTS.name)
    sent = asyncio.run(found.send(columns_of(own, form).ravel(), seconds))
    say(
        f"Client {found.client}: all {len(found.servers)} parties have its values, masked, on these terms "
        f"({sent:,} bytes to each)."
    )


def _terms(found: Invitation, invitation: str) -> tuple[Fraction, list[str]]:
    """Return ε, and in sentences what a client agrees to; parties that run on other terms get nothing.

    Raises: ShareError: this version does not know such terms.
    """
    said = {name: str(value) for name, value in found.terms.items()}
    try:
        epsilon, delta = (_fraction(said[name]) for name in ("epsilon", "delta"))
        change = _CHANGES[NeighboringRelation(said["neighboring_relation"])]
        model, opened = get_model(said["model"]), "; ".join(_OPENED[said["task"]])
    except (KeyError, ValueError, OptionError):
        raise ShareError(
            f"{invitation} is for a run that this version cannot describe; nothing was sent."
        ) from None
    behaviour = "keeps to the protocol but looks at all it receives, learns nothing more"
    if model.tolerates == "active":
        behaviour = (
            "may deviate from the protocol, learns nothing more and changes no value unnoticed, but for a "
            f"probability of 2^-{CHECKS} each"
        )
    return epsilon, [
        f"The run opens: {opened}. Guarantee: (ε, δ)-differential privacy with ε = {digits_up(epsilon, 4)} "
        f"and δ = {digits_up(delta, 4)} in total, for {change}.",
        f"Computation: {model.parties} parties, model {model.name}: any {model.corruptions} of them, which "
        f"{behaviour}. Whoever runs more of them can see your values.",
    ]


def _fraction(text: str) -> Fraction:
    """Read a positive number as an invitation writes it. Raises: ValueError."""
    if not _POSITIVE.fullmatch(text):
        raise ValueError(text)
    return Fraction(text)
