"""Shares add up to the values, and any r - 1 of them say nothing; the arithmetic against Python's."""

import ast
import inspect
import itertools
import math
import operator
import secrets
from collections.abc import Callable
from functools import cache, reduce

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fairshares.harness.inputs import rings as domain_module, shares as sharing
from fairshares.harness.inputs.rings import FIELD, RING, RINGS, XOR, Ring
from fairshares.harness.inputs.shares import SEED_BYTES, split_into_shares
from fairshares.harness.uploads import client as sealing
from fairshares.protocols.arrays import Words
from tests.support.rings import to_integers

EVERY_DOMAIN = pytest.mark.parametrize("domain", RINGS.values(), ids=RINGS)
ADDITIVE = pytest.mark.parametrize("domain", [RING, FIELD], ids=lambda domain: domain.name)
INT64 = np.iinfo(np.int64)

integers = st.one_of(
    st.integers(int(INT64.min), int(INT64.max)),
    st.sampled_from([0, 1, -1, int(INT64.min), int(INT64.max), 2**32 - 1, 2**32, -(2**32)]),
)


def elements(domain: Ring) -> st.SearchStrategy[int]:
    """Draw elements of a domain, often where a carry runs through a word or wraps around."""
    p = domain.modulus
    edges = [
        0,
        1,
        2,
        p - 1,
        p - 2,
        p // 2,
        p // 2 + 1,
        2**32 - 1,
        2**32,
        2**63 - 1,
        2**63,
        2**64 - 2,
        2**64 - 1,
    ]
    more = [2**64, 2**64 + 1, 2**96, 2**126, 2**126 - 1, p - 2**64, p - 2**64 + 1, 2**127 - 2**64 - 2]
    return st.one_of(st.integers(0, p - 1), st.sampled_from([e for e in edges + more if e < p]))


def words(values: list[int], domain: Ring) -> Words:
    """Write integers in [0, 2^(64 words)) as the domain's arrays hold them."""
    split = [[v >> 64 * i & (2**64 - 1) for i in range(domain.words)] for v in values]
    return np.array(split, dtype=np.uint64).reshape(-1, domain.words)


def integers_of(array: Words) -> list[int]:
    """Read elements as integers in [0, modulus)."""
    return [sum(int(word) << 64 * i for i, word in enumerate(e)) for e in array.reshape(-1, array.shape[-1])]


@given(st.lists(elements(XOR), min_size=1, max_size=20), elements(XOR))
def test_exclusive_or(values: list[int], other: int) -> None:
    array = words(values, XOR)
    combined = XOR.subtract(array, words([other], XOR))
    assert integers_of(combined) == [value ^ other for value in values]
    assert integers_of(XOR.add(combined, words([other], XOR))) == values
    assert integers_of(XOR.total(array)[np.newaxis]) == [reduce(operator.xor, values)]


@ADDITIVE
@given(data=st.data())
def test_signed_words_stand_for_the_element(domain: Ring, data: st.DataObject) -> None:
    values = data.draw(st.lists(elements(domain), min_size=1, max_size=20))
    signed = domain.signed_words(words(values, domain)).view(np.int64).tolist()
    assert [
        sum(word << 64 * place for place, word in enumerate(of_element)) % domain.modulus
        for of_element in signed
    ] == values


@ADDITIVE
@given(data=st.data())
def test_subtract_and_add(domain: Ring, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(elements(domain), elements(domain)), min_size=1, max_size=20))
    left, right = ([pair[i] for pair in pairs] for i in (0, 1))
    a, b = words(left, domain), words(right, domain)
    p = domain.modulus
    assert integers_of(domain.subtract(a, b)) == [(x - y) % p for x, y in pairs]
    assert integers_of(domain.add(a, b)) == [(x + y) % p for x, y in pairs]


@ADDITIVE
@given(data=st.data())
def test_total(domain: Ring, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 3))
    columns = data.draw(st.integers(1, 12))
    values = data.draw(st.lists(elements(domain), min_size=rows * columns, max_size=rows * columns))
    table = words(values, domain).reshape(rows, columns, domain.words)
    expected = [sum(values[i * columns : (i + 1) * columns]) % domain.modulus for i in range(rows)]
    got = domain.total(table)
    assert got.shape == (rows, domain.words)
    assert integers_of(got) == expected


@ADDITIVE
def test_total_of_many_largest_elements(domain: Ring) -> None:
    """10^5 times the largest element, whose 32-bit limbs add up beyond 32 bits."""
    largest = np.broadcast_to(words([domain.modulus - 1], domain), (100_000, domain.words))
    assert integers_of(domain.total(largest)) == [-100_000 % domain.modulus]


@EVERY_DOMAIN
@given(values=arrays(np.int64, array_shapes(max_dims=3, max_side=4), elements=integers))
def test_encode_keeps_integers_and_shapes(domain: Ring, values: npt.NDArray[np.int64]) -> None:
    encoded = domain.encode(values)
    assert encoded.shape == (*values.shape, domain.words)
    assert integers_of(encoded) == [v % domain.modulus for v in values.ravel().tolist()]
    assert to_integers(domain, encoded) == values.ravel().tolist()


@EVERY_DOMAIN
@given(data=st.data())
def test_reduce_maps_words_to_elements(domain: Ring, data: st.DataObject) -> None:
    """Field: the low 127 bits, where all ones stand for 0; each element has one preimage, 0 has two."""
    bits = 64 * domain.words
    edges = st.sampled_from([0, 2**63, 2**64 - 1, 2**bits - 1, 2**bits // 2 - 1, 2**bits // 2, 2**bits - 2])
    raw = data.draw(st.lists(st.one_of(st.integers(0, 2**bits - 1), edges), min_size=1))
    kept = 2 ** domain.modulus.bit_length() if domain is FIELD else domain.modulus
    assert integers_of(domain.reduce(words(raw, domain))) == [v % kept % domain.modulus for v in raw]


@EVERY_DOMAIN
@given(values=st.lists(integers, min_size=1, max_size=12), parties=st.integers(2, 4))
def test_recombining_gives_the_values_back(domain: Ring, values: list[int], parties: int) -> None:
    encoded = domain.encode(np.array(values, dtype=np.int64))
    before = encoded.copy()
    *others, (payload, total) = split_into_shares(encoded, domain, parties)
    assert len(others) == parties - 1 and payload == domain.to_bytes(total)
    for seed, words in others:
        assert (words == domain.expand(seed, len(values))).all()
        total = domain.add(total, words)
    assert to_integers(domain, total) == values
    assert (encoded == before).all()


@EVERY_DOMAIN
@given(values=st.lists(integers, min_size=1, max_size=5))
def test_bytes_there_and_back(domain: Ring, values: list[int]) -> None:
    encoded = domain.encode(np.array(values, dtype=np.int64))
    raw = domain.to_bytes(encoded)
    assert raw == b"".join((v % domain.modulus).to_bytes(domain.value_bytes, "little") for v in values)
    assert (domain.from_bytes(raw) == encoded).all()


VECTOR_SEED = bytes(range(32))


def test_expand_is_counter_mode_from_0() -> None:
    """The keystream is what AES makes of the counter's blocks, one at a time: no mode is asked for here."""
    cipher = Cipher(algorithms.AES(VECTOR_SEED), modes.ECB()).encryptor()  # block by block
    keystream = b"".join(cipher.update(i.to_bytes(16, "big")) for i in range(300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domain_module, "_PIECE", bytes(48))  # what is enciphered at a time, 3 of its blocks
        for domain in RINGS.values():
            expected = domain.reduce(domain.from_bytes(keystream)[:260])
            for values in (0, 1, 5, 6, 7, 260):
                assert (domain.expand(VECTOR_SEED, values) == expected[:values]).all()


def dkw_bound(n: int, false_alarm: float) -> float:
    """Return t with P(sup |F_n - F| > t) <= false_alarm for every F (Massart 1990)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * n))


def distance_to_uniform(values: list[int], modulus: int) -> float:
    """Return sup |F_n - F| against uniform integers in [0, modulus), from above by at most 1/modulus."""
    n = len(values)
    points = np.array(sorted(values), dtype=object) / modulus
    ranks = np.arange(1, n + 1) / n
    return float(max(np.max(ranks - points), np.max(points - ranks + 1 / n)))


N = 20_000
FALSE_ALARM = 1e-9  # of each comparison; 4 tests make 12 each, so 5e-8 for all


def views(columns: list[list[int]], modulus: int) -> list[list[int]]:
    """Return each share, and the sum of each two: what r - 1 parties of 3 could look at."""
    pairs = itertools.combinations(columns, 2)
    return columns + [[(x + y) % modulus for x, y in zip(a, b, strict=True)] for a, b in pairs]


def suspicious(columns: list[list[int]], modulus: int) -> int:
    """Count the views whose high or low bits are not uniform by DKW, n = 20 000, alarm 1e-9 each."""
    bound = dkw_bound(N, FALSE_ALARM)
    low = [[value % 2**32 for value in column] for column in views(columns, modulus)]
    return sum(distance_to_uniform(column, modulus) > bound for column in views(columns, modulus)) + sum(
        distance_to_uniform(column, 2**32) > bound for column in low
    )


@cache
def columns_of(domain: Ring, value: int) -> list[list[int]]:
    encoded = domain.encode(np.full(N, value))
    return [integers_of(share) for _, share in split_into_shares(encoded, domain, 3)]


@EVERY_DOMAIN
@pytest.mark.parametrize("value", [0, -(2**62)])
def test_any_two_of_three_shares_are_uniform(domain: Ring, value: int) -> None:
    """Each share, and each sum of two, whatever the value; 32 random low bits are as uniform as all."""
    assert suspicious(columns_of(domain, value), domain.modulus) == 0


WRONG: dict[str, Callable[[list[list[int]], int], list[list[int]]]] = {
    "one bit short": lambda c, p: [[x % (p // 2) for x in c[0]], *c[1:]],
    "low bits short": lambda c, p: [[x & ~0xF0000000 for x in c[0]], *c[1:]],
    "same seed twice": lambda c, p: [c[0], [(p - x) % p for x in c[0]], c[2]],
    "value in the clear": lambda c, p: [c[0], c[1], [3] * N],
}


@EVERY_DOMAIN
@pytest.mark.parametrize("wrong", WRONG)
def test_shares_that_are_not_uniform_are_noticed(domain: Ring, wrong: str) -> None:
    assert suspicious(WRONG[wrong](columns_of(domain, 7), domain.modulus), domain.modulus) > 0


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_seeds_come_from_the_operating_system(parties: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def token_bytes(size: int) -> bytes:
        drawn.append(secrets.randbits(8 * size).to_bytes(size, "little"))
        return drawn[-1]

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    *others, _ = split_into_shares(RING.encode(np.zeros(3, dtype=np.int64)), RING, parties)
    seeds = [seed for seed, _ in others]
    assert seeds == drawn
    assert [len(seed) for seed in seeds] == [SEED_BYTES] * (parties - 1)
    assert len(set(seeds)) == parties - 1


@pytest.mark.parametrize("module", [sharing, sealing, domain_module])
def test_no_other_source_of_randomness(module: object) -> None:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not named & {"random", "default_rng", "urandom", "seed"}
