"""The meaning of a task, and the costs of many uploads."""

from collections.abc import Iterator, Sequence

from fairshares.harness.forecast.upload_costs import UploadCosts
from fairshares.harness.inputs.record_schema import VectorGrid
from fairshares.harness.privacy.ledger.populations import spent_text
from fairshares.harness.uploads.keys import today
from fairshares.harness.uploads.task import ADMISSIONS, Task
from fairshares.harness.views.parts import Table

_CORES = 32


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def meaning(task: Task, revealed: Sequence[str]) -> Iterator[str]:
    """Yield the lines that say what a task means to those who upload for it.

    Args:
        task: The task.
        revealed: The results that its runs may reveal, in words.
    """
    model = task.model
    domain = task.domain
    allowed = task.allowed
    ended = f", which is over, as this machine has {today()}" if today() > task.until else ""
    yield (
        f"Task {task.name}: clients share until {task.until}{ended}; "
        f"a run counts at least {task.least_uploads}."
    )
    if domain.vectors is not None:
        yield from _of_vectors(domain.vectors)
    else:
        which_count = f", of which {domain.cap.slots} count." if domain.cap else "."
        yield (
            f"Records: groups {', '.join(domain.groups)}; labels {', '.join(domain.labels) or 'none'}; "
            f"at most {counted(domain.max_count, 'record')} of a client{which_count}"
        )
    yield f"Revealed, by {', '.join(allowed.tasks)}: {'; '.join(revealed)}."
    yield f"Clients: {ADMISSIONS[task.admission]}. The task says so; each server's owner sees to it."
    yield f"All runs on an upload spend at most {spent_text(allowed.total)}, per {allowed.unit}."
    for number, party in enumerate(task.parties):
        keys = [f"key {key.id.hex()} {state} until {key.until}" for key, state in party.states().items()]
        yield (
            f"Party {number}: {party.name}, {party.address or 'no address'}; "
            f"{task.envelope_bytes(number)} bytes of an envelope; {', '.join(keys)}"
        )
    colluding = model.corruptions + 1
    read_uploads = colluding if task.copies > 1 else model.parties
    yield (
        f"Model {model.title}: {model.corruptions} of the parties may be corrupt ({model.tolerates}). "
        f"{colluding} that collude can read what is computed on; {read_uploads}, single uploads."
    )
    if task.parties[0].keys[0].hybrid:
        yield "Sealed by ML-KEM-768 and X25519 together."
    else:
        yield "Sealed by X25519 alone: whoever keeps all envelopes until that is broken can read them."


def _of_vectors(vectors: VectorGrid) -> Iterator[str]:
    """Yield the vectors that clients share in place of records, in words."""
    weighed = ""
    if vectors.largest_weight != 1:
        weighed = f", then multiplied by a weight of {vectors.largest_weight:g} at most"
    yield (
        f"Vectors: {counted(vectors.coordinates, 'coordinate')}, clipped to the norm "
        f"{vectors.clip:g}{weighed}, in steps of 1/{vectors.rule.units} of it; one of a client in a reveal."
    )
    yield f"At most {counted(vectors.reveals, 'sum')} of them are revealed, and spend ε once, together."
    if vectors.participations:
        yield (
            f"A client takes part in at most {vectors.participations} of them, for which ε is. Its own "
            "program keeps a record of that, and hosts cannot tell: without it a client loses its protection."
        )


def planned(costs: UploadCosts, uploads: int) -> Table:
    """Show the costs of so many uploads."""
    seconds = {
        "clients, to seal": costs.seal_s,
        "a party, to list": costs.list_s,
        "a party, to add up by all lists": costs.add_s,
        f"both on {_CORES} cores": (costs.list_s + costs.add_s) / _CORES,
    }
    sizes = {
        "a party's disk, for uploads": costs.disk_bytes,
        "each list, sent to all parties": costs.sent_bytes,
        "a party's memory, while it adds up": costs.memory_bytes,
    }
    rows = [
        [what, f"{1e6 * value / uploads:,.3g} µs", f"{value / 3600:,.3g} hours of a core"]
        for what, value in seconds.items()
    ]
    rows += [
        [what, f"{value / uploads:,.4g} bytes", f"{value / 1e9:,.3g} GB"] for what, value in sizes.items()
    ]
    return Table([f"{uploads:,} uploads", "of each", "of all"], rows, "lrr")
