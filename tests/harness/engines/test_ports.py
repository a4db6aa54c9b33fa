"""Ports for runs: free ones, and no two runs at a time get the same."""

import random
import socket
from collections.abc import Sequence

import pytest

from fairshares.harness.engines.parties import supervisor as parties
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import UnsupportedError


class InOrder:
    """Stands for the system's randomness: whoever asks draws the same."""

    def sample(self, population: Sequence[int], count: int) -> list[int]:
        return list(population)[:count]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two blocks of ports, which no other test is given, in an order that is known."""
    all_free = (
        first
        for first in random.SystemRandom().sample(range(30_000, 32_700), 100)
        if all(map(parties._is_free, range(first, first + 32)))
    )
    first = next(all_free)
    monkeypatch.setattr(parties, "_PORTS", range(first, first + 32))
    monkeypatch.setattr(random, "SystemRandom", InOrder)


def test_nobody_else_is_given_ports_on_which_nothing_listens_yet() -> None:
    """As when two runs start at once: a party listens a second after its port was chosen."""
    with free_ports(3) as ours:
        for _ in range(2):
            with free_ports(3) as others:
                assert len({*ours, *others}) == 6
    with free_ports(3) as again:
        assert again == ours


def test_a_port_that_somebody_listens_on_is_left_out() -> None:
    with free_ports(3) as before:
        pass
    with socket.create_server(("127.0.0.1", before[1])), free_ports(3) as ports:
        assert ports == [before[0], before[2], before[2] + 1]


def test_too_few_are_an_error() -> None:
    refused = pytest.raises(UnsupportedError, match="No 3 free TCP ports")
    with free_ports(3), free_ports(3), refused, free_ports(3):
        pass


def test_ports_for_many_parties_are_of_several_blocks_that_nobody_else_is_given() -> None:
    with free_ports(20) as ours:
        assert len({*ours}) == 20
        assert ours[15] == ours[14] + 2  # the first port of the second block is its guard
        with pytest.raises(UnsupportedError, match="No 1 free TCP ports"), free_ports(1):
            pass
    with free_ports(20) as again:
        assert again == ours


def test_a_block_with_too_few_ports_is_left_to_others() -> None:
    with free_ports(1) as (first,):
        pass
    with socket.create_server(("127.0.0.1", first)):
        with pytest.raises(UnsupportedError, match="No 30 free TCP ports"), free_ports(30):
            pass
        with free_ports(3), free_ports(3):
            pass
