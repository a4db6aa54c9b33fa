"""Mutates bytes, feeds them to readers of foreign bytes, and says how each reader ended.

A reader must accept its input or raise one of its declared errors, within limits of processor time and of
memory. Everything else is a failure, which is kept with the input that caused it.
"""

import importlib
import pkgutil
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fairshares.harness.errors import FairSharesError

ACCEPTED = "accepted"
_SHOWN_FAILURES = 20
_MAX_CHANGES = 4  # of one mutated input
_MAX_COPY = 4096  # bytes that one change inserts or repeats
_MAX_INPUT = 1 << 20

# Numbers that length fields and counters are often wrong at.
_NUMBERS = tuple(
    sorted({0, 1, 2, 3, *(2**bits + off for bits in (7, 8, 15, 16, 31, 32, 63, 64) for off in (-1, 0, 1))})
)
# Pieces of text that readers of text are often wrong at.
_PIECES = (
    b"", b"\0", b"\n", b"\r\n", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"\\", b"\\ud800",
    b"{", b"}", b"[", b"]", b"[" * 64, b"]" * 64, b",", b":", b"null", b"true", b"NaN", b"Infinity", b"-0",
    b"1e400000000", b"1" * 5000, b"0x1", b"../", b"/dev/zero", b"%s%n", b"__class__",
)  # fmt: skip


class TooSlow(BaseException):
    """A reader took more processor time than its target allows; no reader may catch it."""


@dataclass(frozen=True)
class Target:
    """One reader of foreign bytes.

    Attributes:
        name: By which `python -m tests.fuzz` calls it.
        read: Gets the bytes as the foreign party sent them.
        seeds: Inputs that are right, or close to it; all others are made from them.
        refusals: The errors that are right for a wrong input.
        cpu_s: Processor time that one input may take.
        memory_bytes: Memory that the process may grow by over all inputs.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (FairSharesError,)
    cpu_s: float = 5.0
    memory_bytes: int = 512 << 20


@dataclass
class Report:
    """How a reader ended.

    Attributes:
        outcomes: Number of inputs by kind: accepted, or the name of the declared error.
        failures: Inputs that ended otherwise, with the reason. Only the first few are kept.
        failed: Number of all inputs that ended otherwise.
        seconds: Of all inputs together.
        slowest_cpu_s: Processor time of the slowest input.
        peak_bytes: Largest resident size of the process so far.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0
    slowest_cpu_s: float = 0.0
    peak_bytes: int = 0

    def add_failure(self, data: bytes, reason: str) -> None:
        """Count a failure, and keep it if there are few."""
        self.failed += 1
        if len(self.failures) < _SHOWN_FAILURES:
            self.failures.append((data, reason))


def targets() -> dict[str, Target]:
    """Return all targets by name, from `TARGETS` of each module below `tests/fuzz/targets`."""
    found: dict[str, Target] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent / "targets")]):
        registered: Sequence[Target] = importlib.import_module(f"tests.fuzz.targets.{module.name}").TARGETS
        for target in registered:
            if target.name in found:
                raise ValueError(f"two targets are called {target.name}")
            found[target.name] = target
    return found


def mutated(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one seed with a few random changes, or rarely random bytes."""
    if source.random() < 0.02:
        return source.randbytes(source.randrange(200))
    data = bytearray(source.choice(seeds))
    for _ in range(source.randint(1, _MAX_CHANGES)):
        change = source.choice(_CHANGES)
        change(source, data, seeds)
    del data[_MAX_INPUT:]
    return bytes(data)


def inputs(target: Target, count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` inputs: the seeds themselves, then mutated ones; the same for the same seed."""
    source = random.Random(seed)
    for number in range(count):
        if number < len(target.seeds):
            yield target.seeds[number]
        else:
            yield mutated(source, target.seeds)


def fuzz(target: Target, data: Iterator[bytes]) -> Report:
    """Feed inputs to a target one by one; return how each ended."""
    report = Report()
    began = time.perf_counter()
    with limited_memory(target.memory_bytes):
        for one in data:
            before = time.process_time()
            try:
                report.outcomes[outcome(target, one)] += 1
            except (Exception, TooSlow) as error:  # noqa: BLE001 - each is a failure of the reader
                report.add_failure(one, f"{type(error).__name__}: {error}"[:300])
            report.slowest_cpu_s = max(report.slowest_cpu_s, time.process_time() - before)
    report.seconds = time.perf_counter() - began
    report.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return report


def outcome(target: Target, data: bytes) -> str:
    """Feed one input to a target; return `accepted`, or the declared error's name.

    Raises whatever else the reader raises, and TooSlow.
    """
    with _limited_cpu(target.cpu_s):
        try:
            target.read(data)
        except target.refusals as error:
            return type(error).__name__
    return ACCEPTED


@contextmanager
def _limited_cpu(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s of processor time")

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


@contextmanager
def limited_memory(more_bytes: int) -> Iterator[None]:
    """Bound the process's address space by its present size and `more_bytes`; beyond is a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _place(source: random.Random, data: bytearray) -> int:
    return source.randrange(len(data) + 1)


def _span(source: random.Random, data: bytearray) -> slice:
    start = _place(source, data)
    length = source.choice((1, 2, 4, 8, 16, source.randrange(len(data) + 1)))
    return slice(start, start + min(length, _MAX_COPY))


def _flip_bit(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def _set_byte(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))


def _set_number(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    size = source.choice((1, 2, 4, 8))
    number = source.choice(_NUMBERS) % (1 << 8 * size)
    start = _place(source, data)
    data[start : start + size] = number.to_bytes(size, source.choice(("little", "big")))


def _delete(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    del data[_span(source, data)]


def _cut_off(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    del data[_place(source, data) :]


def _insert_random(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    start = _place(source, data)
    data[start:start] = source.randbytes(source.randint(1, 16))


def _insert_piece(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    data[_span(source, data)] = source.choice(_PIECES)


def _repeat(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    copied = bytes(data[_span(source, data)])
    start = _place(source, data)
    data[start:start] = copied * source.choice((1, 1, 2, 16))


def _splice(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = bytearray(source.choice(seeds))
    data[_span(source, data)] = other[_span(source, other)]


_CHANGES: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip_bit,
    _set_byte,
    _set_number,
    _delete,
    _cut_off,
    _insert_random,
    _insert_piece,
    _repeat,
    _splice,
)
