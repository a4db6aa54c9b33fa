"""`share` and `aggregate`: a client's step, and a party's."""

from __future__ import annotations

from pathlib import Path

from harness import sharing
from harness.cli import command, plain, say
from harness.commands.chosen import chosen_form, declared_domain
from harness.errors import OptionError
from harness.options import parse_party, require
from harness.records import read_records
from harness.schemes import choose_model
from protocols.spec import PI_RW


@command
def share(
    records: str, out: str, domain: str, groups: str, labels: str, max_count: str, model: str, input_form: str
) -> None:
    """Write one share file per party for the clients of a records file."""
    require({"--records": records, "--out": out})
    declared = declared_domain(domain, groups, labels, max_count)
    if declared is None:
        raise OptionError(
            "share needs --domain, or --groups and --labels: one client's file cannot tell what others have."
        )
    chosen = choose_model(model or None)
    found = read_records(Path(records), declared, may_be_empty=True)
    batch = sharing.share(found, chosen_form(PI_RW, input_form), chosen.domain, chosen.parties, Path(out))
    clients = "1 client" if found.clients == 1 else f"{found.clients:,} clients"
    say(
        f"Shared {clients} for the {chosen.parties} parties of model {chosen.name}: "
        f"{plain(str(Path(out) / 'party-<i>' / (batch + sharing.SUFFIX)))}. Send each "
        "party its own file only, "
        "and share once: a second upload counts as another client's."
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
