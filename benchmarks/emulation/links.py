"""Emulated links between parties on one machine: a relay, and what it was measured to do."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from benchmarks.emulation import relay
from benchmarks.errors import RelayError
from fairshares.harness.computation import EmulatedNetwork
from fairshares.harness.engines.links import Links, Network
from fairshares.harness.errors import ClientError, FairSharesError, PartyFailedError, PartyTimeoutError
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.system.processes import has_output_within, leashed
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.system.threads import ContextPool

_START_S = 20.0
_PROBE_S = 0.1  # the length of a probe of round trips, and of traffic
_ROUND_TRIPS = (5, 100)  # the least and the most round trips that are measured
_MOST_BYTES = 1 << 25


@dataclass(frozen=True)
class EmulatedLinks(Network):
    """A relay between any two parties, which delays traffic and limits its rate by a profile."""

    profile: NetworkProfile

    @contextmanager
    def links_between(self, ports: Sequence[int]) -> Iterator[Links]:
        """Yield links between parties that listen on these ports, or raise RelayError.

        Guarantees: the relay's process ends, and errors tell of an earlier end.
        [test: tests/commands/test_releases.py]
        """
        profile = self.profile
        with socket.create_server((relay.HOST, 0)) as listening:
            pairs = list(permutations(range(len(ports)), 2))
            reached = [(a, b, ports[b]) for a, b in pairs]
            reached.append((len(ports), len(ports) + 1, listening.getsockname()[1]))  # for the measurement
            process = _start(profile, reached)
            try:
                *shown, shown_probe = _shown_ports(process, profile, len(reached))
                seen = _seen_by_each(ports, dict(zip(pairs, shown, strict=True)))
                try:
                    yield Links(seen, _measure(profile, shown_probe, listening))
                except (ClientError, PartyFailedError, PartyTimeoutError) as error:
                    raise _explained(error, process, profile) from None
            finally:
                with uninterrupted(), suppress(BrokenPipeError), process:
                    process.kill()


def emulated(profile: NetworkProfile | None) -> EmulatedLinks | None:
    """Return the network of a profile; None for the machine itself."""
    return None if profile is None else EmulatedLinks(profile)


def as_measured(profile: NetworkProfile, rtt_s: float, bandwidth_bits_per_s: float) -> EmulatedNetwork:
    """Return a manifest's facts of an emulated network: its profile, and its measured figures."""
    return EmulatedNetwork(
        profile=profile.name,
        rtt_s=profile.rtt_s,
        bandwidth_bits_per_s=profile.bandwidth_bits_per_s,
        measured_rtt_s=rtt_s,
        measured_bandwidth_bits_per_s=bandwidth_bits_per_s,
    )


def _seen_by_each(ports: Sequence[int], shown: Mapping[tuple[int, int], int]) -> tuple[tuple[int, ...], ...]:
    """Return for each party the ports at which it finds all parties: its own, and the relay's for the others.

    Args:
        ports: The parties' own ports.
        shown: The relay's port by the party that connects and the party that it reaches.
    """
    seen: list[tuple[int, ...]] = []
    for here, own in enumerate(ports):
        others = [own if there == here else shown[here, there] for there in range(len(ports))]
        seen.append(tuple(others))
    return tuple(seen)


def _start(network: NetworkProfile, reached: Sequence[tuple[int, int, int]]) -> subprocess.Popen[str]:
    links = [f"{a}:{b}:{port}" for a, b, port in reached]
    return subprocess.Popen(
        leashed(
            sys.executable,
            "-m",
            relay.__name__,
            str(network.rtt_s / 2),
            str(network.bandwidth_bits_per_s / 8),
            *links,
        ),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _shown_ports(process: subprocess.Popen[str], network: NetworkProfile, count: int) -> list[int]:
    assert process.stdout is not None
    has_written = has_output_within(_START_S, process.stdout)
    ports = [int(word) for word in process.stdout.readline().split()] if has_written else []
    if len(ports) != count:
        raise RelayError(f"{_relay_of(network)} did not start; no party was started.")
    return ports


def _measure(network: NetworkProfile, port: int, listening: socket.socket) -> EmulatedNetwork:
    with socket.create_connection((relay.HOST, port)) as here, listening.accept()[0] as there:
        for end in (here, there):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(_START_S + 2 * network.rtt_s)
        try:
            rtt_s = _round_trip_s(here, there)
            bandwidth_bits_per_s = _bits_per_s(here, there, network)
        except OSError:
            raise RelayError(f"{_relay_of(network)} passes nothing on; no party was started.") from None
    return as_measured(network, rtt_s, bandwidth_bits_per_s)


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


def _bits_per_s(here: socket.socket, there: socket.socket, network: NetworkProfile) -> float:
    """Return the rate at which bytes arrive, net of the wanted delay."""
    size = max(1, min(_MOST_BYTES, int(network.bandwidth_bits_per_s / 8 * _PROBE_S)))
    with ContextPool(1) as pool:  # no buffer holds all of it
        started = time.perf_counter()
        sent = pool.submit(here.sendall, bytes(size))
        _receive(there, size)
        seconds = time.perf_counter() - started
        sent.result()
    return 8 * size / (seconds - network.rtt_s / 2)


def _receive(end: socket.socket, size: int) -> None:
    with end.makefile("rb") as file:
        if len(file.read(size)) < size:
            raise ConnectionResetError


def _explained(
    error: FairSharesError, process: subprocess.Popen[str], network: NetworkProfile
) -> FairSharesError:
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


def _relay_of(network: NetworkProfile) -> str:
    return f"The relay that emulates network {network.name}"
