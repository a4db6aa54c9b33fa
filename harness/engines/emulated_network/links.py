"""Links between parties on one machine: loopback, or a relay."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from fairshares.harness.computation import EmulatedNetwork
from fairshares.harness.engines.emulated_network import relay
from fairshares.harness.engines.emulated_network.profiles import Network
from fairshares.harness.errors import (
    ClientError,
    FairSharesError,
    PartyFailedError,
    PartyTimeoutError,
    RelayError,
)
from fairshares.harness.system.processes import has_output_within, leashed
from fairshares.harness.system.signals import uninterrupted

_START_S = 20.0
_PROBE_S = 0.1  # of round trips, and of traffic
_ROUND_TRIPS = (5, 100)  # at least and at most
_MOST_BYTES = 1 << 25


@dataclass(frozen=True)
class Links:
    """The ports at which each party finds each party, and a relay's measurements."""

    ports: tuple[tuple[int, ...], ...]
    measured: EmulatedNetwork | None = None


@contextmanager
def links_between(ports: Sequence[int], network: Network | None) -> Iterator[Links]:
    """Yield links between parties that listen on these ports, or raise RelayError.

    Guarantees: the relay's process ends, and errors tell of an earlier end.
    [test: tests/commands/test_releases.py]
    """
    if network is None:
        yield Links(tuple(tuple(ports) for _ in ports))
        return
    with socket.create_server((relay.HOST, 0)) as listening:
        pairs = list(permutations(range(len(ports)), 2))
        reached = [(a, b, ports[b]) for a, b in pairs]
        reached.append((len(ports), len(ports) + 1, listening.getsockname()[1]))  # for the measurement
        process = _start(network, reached)
        try:
            *shown, shown_probe = _shown_ports(process, network, len(reached))
            at = dict(zip(pairs, shown, strict=True))
            seen = tuple(
                tuple(port if a == b else at[a, b] for b, port in enumerate(ports)) for a in range(len(ports))
            )
            try:
                yield Links(seen, _measure(network, shown_probe, listening))
            except (ClientError, PartyFailedError, PartyTimeoutError) as error:
                raise _explained(error, process, network) from None
        finally:
            with uninterrupted(), suppress(BrokenPipeError), process:
                process.kill()


def _start(network: Network, reached: Sequence[tuple[int, int, int]]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        leashed(
            *(sys.executable, "-m", relay.__name__),
            str(network.rtt_s / 2),
            str(network.bandwidth_bits_per_s / 8),
            *(f"{a}:{b}:{port}" for a, b, port in reached),
        ),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _shown_ports(process: subprocess.Popen[str], network: Network, count: int) -> list[int]:
    assert process.stdout is not None
    has_written = has_output_within(_START_S, process.stdout)
    ports = [int(word) for word in process.stdout.readline().split()] if has_written else []
    if len(ports) != count:
        raise RelayError(f"{_relay_of(network)} did not start; no party was started.")
    return ports


def _measure(network: Network, port: int, listening: socket.socket) -> EmulatedNetwork:
    with socket.create_connection((relay.HOST, port)) as here, listening.accept()[0] as there:
        for one in (here, there):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(_START_S + 2 * network.rtt_s)
        try:
            return network.as_measured(_round_trip_s(here, there), _bits_per_s(here, there, network))
        except OSError:
            raise RelayError(f"{_relay_of(network)} passes nothing on; no party was started.") from None


def _round_trip_s(here: socket.socket, there: socket.socket) -> float:
    round_trips_s: list[float] = []
    least, most = _ROUND_TRIPS
    while len(round_trips_s) < least or (sum(round_trips_s) < _PROBE_S and len(round_trips_s) < most):
        started = time.perf_counter()
        for source, target in ((here, there), (there, here)):
            source.sendall(b"-")
            _receive(target, 1)
        round_trips_s.append(time.perf_counter() - started)
    return statistics.median(round_trips_s)


def _bits_per_s(here: socket.socket, there: socket.socket, network: Network) -> float:
    """Return the rate at which bytes arrive, net of the wanted delay."""
    size = max(1, min(_MOST_BYTES, int(network.bandwidth_bits_per_s / 8 * _PROBE_S)))
    with ThreadPoolExecutor(1) as pool:  # no buffer holds all of it
        started = time.perf_counter()
        sent = pool.submit(here.sendall, bytes(size))
        _receive(there, size)
        seconds = time.perf_counter() - started
        sent.result()
    return 8 * size / (seconds - network.rtt_s / 2)


def _receive(one: socket.socket, size: int) -> None:
    with one.makefile("rb") as file:
        if len(file.read(size)) < size:
            raise ConnectionResetError


def _explained(error: FairSharesError, process: subprocess.Popen[str], network: Network) -> FairSharesError:
    stopped = "the parties were stopped and no result was written."
    if (code := process.poll()) is not None:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return RelayError(f"{_relay_of(network)} {how}; {stopped}")
    try:
        process.communicate(timeout=3.0)
    except subprocess.TimeoutExpired:
        return RelayError(f"{_relay_of(network)} hangs; {stopped}")
    if isinstance(error, PartyTimeoutError):
        return PartyTimeoutError(f"{error} The network between them was {network.name}.")
    return error


def _relay_of(network: Network) -> str:
    return f"The relay that emulates network {network.name}"
