"""`share`, `aggregate` and `send`: clients' steps, and a party's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness import sharing
from harness.cli import command, plain, say
from harness.clients.invitations import read_invitation
from harness.commands.chosen import chosen_form, declared_domain
from harness.errors import OptionError
from harness.layouts import columns_of
from harness.options import parse_choice, parse_party, parse_seconds, parse_threshold, require
from harness.records import Detail, domain_from_json, read_records
from harness.schemes import choose_model
from protocols.spec import CLIENTS, PI_CF, PI_GAP, PI_ROC, PI_ROC_PUBLISHED, PI_ROC_RECORDS, PI_RW

# What a command needs of records: how they are shared, and what one holds besides its group and label.
TASKS = {
    "weights": (PI_RW.input_forms, Detail.NONE),
    "confusion": (PI_CF.input_forms, Detail.PREDICTION),
    "gap": (PI_GAP.input_forms, Detail.VALUE),
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
    chosen = choose_model(model or None)
    form = chosen_form(forms, input_form)
    score = parse_threshold(threshold) if threshold else None
    if score is not None and detail is not Detail.PREDICTION:
        raise OptionError("--threshold makes predictions from scores; it goes with --task confusion only.")
    found = read_records(Path(records), domain, may_be_empty=True, detail=detail, positive_from=score)
    batches = sharing.share_in_parts(found, form, chosen.domain, chosen.parties, Path(out))
    clients = "1 client" if found.clients == 1 else f"{found.clients:,} clients"
    uploads = batches[0] if len(batches) == 1 else f"<{len(batches)} uploads>"
    say(
        f"Shared {clients} for the {chosen.parties} parties of model {chosen.name}: "
        f"{plain(str(Path(out) / 'party-<i>' / (uploads + sharing.SUFFIX)))}. "
        "Send each party its own file only, and share once: a second upload counts as another client's."
    )


@command
def aggregate(party: str, shares: str, out: str) -> None:
    """Write what one party feeds into a run."""
    require({"--party": party, "--shares": shares, "--out": out})
    number, directory = parse_party(party), Path(shares)
    own = directory / f"party-{number}"
    header = sharing.aggregate(number, own if own.is_dir() else directory, Path(out))
    say(
        f"Party {number}: {header.batches} uploads of {header.clients} clients in {plain(out)}. "
        f"Uploads' fingerprint, the same at every party: {header.batch[:16]}."
    )


@command
def send(records: str, invitation: str, timeout: str) -> None:
    """Send one client's values to the running parties that its invitation names."""
    require({"--records": records, "--invitation": invitation})
    seconds = parse_seconds(timeout)
    found = read_invitation(Path(invitation))
    domain = domain_from_json(found.terms.get("domain"), invitation)
    own = read_records(Path(records), domain, may_be_empty=True)
    if own.clients != 1:
        raise OptionError(f"{records} holds records of {own.clients} clients; an invitation is for one.")
    form = chosen_form(PI_RW.input_forms, str(found.terms.get("input_form")), CLIENTS.name)
    sent = asyncio.run(found.send(columns_of(own, form).ravel(), seconds))
    say(
        f"Client {found.client}: all {len(found.servers)} parties have its values, masked so that none of "
        f"them can read or change one ({sent:,} bytes to each)."
    )
    say(
        f"The run opens what `{found.terms.get('task')}` needs, with ε = {found.terms.get('epsilon')} in "
        f"total, in model {found.terms.get('model')}."
    )
