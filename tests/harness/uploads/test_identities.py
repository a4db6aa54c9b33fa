"""Sets of identities in arrays are sets: they do what Python's own do."""

import hashlib
import itertools
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from fairshares.harness.privacy.ledger.populations import PrivacyEvent, uncovered
from fairshares.harness.uploads.identities import Identities, digests_in
from fairshares.harness.uploads.lists import UploadReport, read_lists, write_uploads
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.harness.uploads.reasons import NOT_THE_SAME, OTHER_TASK
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from tests.support.envelopes import made_task
from tests.support.sharing import allowing

RECORD, ADD_OR_REMOVE_ONE = PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE
# Few, so that sets have members in common; some end with zeros, which numpy's texts would lose.
NAMES = [
    "00" * 32,
    "ff" * 32,
    *(hashlib.sha256(bytes([i])).hexdigest()[: 64 - i] + "0" * i for i in range(9)),
]
SETS = st.frozensets(st.sampled_from(NAMES))


@given(SETS, SETS)
def test_they_do_what_sets_do(first: frozenset[str], second: frozenset[str]) -> None:
    one, two = Identities.from_names(first), Identities.from_names(second)
    assert [*one] == sorted(first) and len(one) == len(first)
    assert {*(one & two)} == first & second and {*(one - two)} == first - second
    assert one | second == one | two and {*(one | two)} == first | second
    assert one & second == one & two and one - second == one - two
    assert (one <= two, one == two) == (first <= second, first == second)
    assert [name in one for name in NAMES] == [name in first for name in NAMES]
    raw = b"".join(map(bytes.fromhex, NAMES))
    assert one.has(digests_in(raw)).tolist() == [name in first for name in NAMES]


def test_many_are_told_in_parts() -> None:
    names = sorted(hashlib.sha256(i.to_bytes(4, "big")).hexdigest() for i in range(10_000))
    made = Identities.from_names(reversed(names))
    assert "".join(made.texts()) == " ".join(names) and [*made] == names
    assert made.fingerprint() == hashlib.sha256("\n".join(names).encode()).hexdigest()


def test_policies_of_uploads_take_memory_for_those_that_differ() -> None:
    """Most clients allow what the task allows; no name of such an upload is kept."""
    uploads = Identities(np.unique(digests_in(np.random.default_rng(1).bytes(32 * 10**5))))
    strict, lax = allowing(("gap",), "1", "1/2"), allowing(("weights",), "1", "1/2")
    (odd,) = itertools.islice(uploads, 7, 8)
    spends = Guarantee(Fraction(1), Fraction(0))
    event = PrivacyEvent("weights", "ring", spends, RECORD, ADD_OR_REMOVE_ONE, Path("out"), uploads=uploads)
    tracemalloc.start()
    try:
        policies = ClientPolicies(uploads, lax, {odd: strict})
        left_out = uncovered(policies, event, {})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left_out == {odd} and policies.of(odd) == strict
    assert most < 10 * len(uploads)


def test_lists_of_a_million_take_little_memory(tmp_path: Path) -> None:
    """Three parties' lists are written, read and compared within 300 bytes for an upload, sound or not."""
    task, million, half = made_task(tmp_path), 10**6, 5 * 10**5
    made = np.unique(digests_in(np.random.default_rng(1).bytes(32 * million)))
    tracemalloc.start()
    try:
        for party in range(3):
            sound, garbage = Identities(made[party + half :]), Identities(made[:half])
            listed = UploadReport(party, task.name, sound, {OTHER_TASK: garbage})
            key = task.signer(party, tmp_path / f"keys-{party}")
            write_uploads(listed, tmp_path / f"party-{party}.uploads", key)
        agreement = read_lists(tmp_path, task)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(agreement.accepted) == half - 2
    assert agreement.left_out == {NOT_THE_SAME: 2, OTHER_TASK: half}
    assert most < 300 * million
