"""Readers of foreign bytes, fed with mutated ones: each accepts, or ends with the error that it declares."""

import pytest

from tests.fuzz.mutate import (
    ACCEPTED,
    Target,
    TooSlow,
    fuzz,
    inputs,
    outcome,
    targets,
)

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_reader_gets_is_accepted_or_refused_as_declared(name: str) -> None:
    report = fuzz(TARGETS[name], inputs(TARGETS[name], 300, seed=1))
    assert not report.failures


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_read(name: str) -> None:
    """Else the mutations would begin from what is refused at its first byte."""
    outcomes = [outcome(TARGETS[name], seed) for seed in TARGETS[name].seeds]
    assert ACCEPTED in outcomes


@pytest.mark.parametrize("name", TARGETS)
def test_ten_thousand_inputs_are_accepted_or_refused_as_declared(name: str) -> None:
    report = fuzz(TARGETS[name], inputs(TARGETS[name], 10_000, seed=2))
    assert not report.failures


def _too_large(data: bytes) -> None:
    bytearray(1 << 33)


def _endless(data: bytes) -> None:
    while True:
        pass


def _wrong(data: bytes) -> None:
    raise IndexError("not declared")


def _refusing(data: bytes) -> None:
    raise KeyError("declared")


@pytest.mark.parametrize(
    ("read", "reason"), [(_too_large, "MemoryError"), (_endless, "TooSlow"), (_wrong, "IndexError")]
)
def test_what_a_reader_must_not_do_is_a_failure(read, reason: str) -> None:
    target = Target("wrong", read, [b"seed"], (KeyError,), cpu_s=0.1)
    report = fuzz(target, inputs(target, 2, seed=1))
    assert report.failed == 2 and not report.outcomes
    assert all(why.startswith(reason) for _, why in report.failures)


def test_outcomes_are_counted_by_kind() -> None:
    target = Target("refusing", _refusing, [b"seed"], (KeyError,))
    assert fuzz(target, inputs(target, 5, seed=1)).outcomes == {"KeyError": 5}


def test_the_same_seed_makes_the_same_inputs() -> None:
    target = Target("any", _refusing, [b"some bytes", b"other bytes"])
    first = list(inputs(target, 500, seed=1))
    assert first == list(inputs(target, 500, seed=1)) != list(inputs(target, 500, seed=2))
    assert len(set(first)) > 400


def test_no_reader_can_catch_that_it_is_too_slow() -> None:
    assert not issubclass(TooSlow, Exception)
