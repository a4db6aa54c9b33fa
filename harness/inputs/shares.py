"""Additive and replicated shares of clients' values.

Of r additive shares, party i holds share i. Replicated shares give party i all but share i, so no party can
change one, but any two together know the values. From here on, no message holds a value.
"""

import secrets
from collections.abc import Iterator

from fairshares.harness.errors import ShareError
from fairshares.harness.inputs.encoding import count_columns, count_rows
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.rings import Ring
from fairshares.harness.system.progress import tell
from fairshares.protocols.arrays import Words
from fairshares.protocols.spec import REPLICATED, InputForm

SEED_BYTES = 32  # bytes of the seed that stands for a share
MAX_VALUES = 2**24  # values of one client, since a party expands them


def copies_of(form: InputForm, parties: int) -> int:
    """Return the number of parties that hold each share."""
    return parties - 1 if form.path is REPLICATED else 1


def held_by(party: int, parties: int, copies: int) -> tuple[int, ...]:
    """Return the numbers of a party's shares: its own, or if replicated the others', from the next on."""
    if copies == 1:
        return (party,)
    return tuple((party + i) % parties for i in range(1, parties))


def split_into_shares(values: Words, ring: Ring, parties: int) -> Iterator[tuple[bytes | memoryview, Words]]:
    """Yield each party's share: its payload in a file, and its elements, shape (n, words).

    The last payload is the elements, as a view of them; the others are seeds.
    Guarantees: any r - 1 of the r shares are uniform and independent of the values, if expanded seeds count
    as random; all r add up to the values.
    [test: tests/harness/inputs/test_shares.py]
    """
    rest = values.reshape(-1, ring.words)
    for _ in range(parties - 1):
        seed = secrets.token_bytes(SEED_BYTES)
        share = ring.expand(seed, len(rest))
        rest = ring.subtract(rest, share)
        yield seed, share
    yield ring.as_bytes(rest), rest


def in_parts_to_share(records: ClientRecords, form: InputForm, smaller: int = 1) -> Iterator[ClientRecords]:
    """Yield records in parts of about MAX_VALUES / `smaller` values, and report progress.

    Raises:
        ShareError: One client has more than MAX_VALUES values.
    """
    values = count_columns(records.domain, form.name) * count_rows(records, form.name)
    at_once = records.clients * MAX_VALUES // max(1, values)
    if not at_once:
        raise ShareError(f"A client would share more than {MAX_VALUES} values; declare fewer thresholds.")
    done = 0
    for part in records.in_parts(max(1, at_once // smaller)):
        yield part
        done += part.clients
        tell(done, records.clients)
