"""The parties' servers while a client sends: what each is to take, how fast, and when it is given up.

All servers are asked at the same time, over several connections each, in one thread. A server that fails is
asked for one upload alone, after longer and longer pauses, and is given up after 30 s. The others go on.
"""

import os
import secrets
import ssl
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from selectors import BaseSelector
from threading import Lock

from fairshares.harness.system.progress import Say, tell
from fairshares.harness.system.threads import ContextThread
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.limited_connections import (
    LATE,
    NOBODY,
    Broken,
    Connection,
    Destination,
    Owner,
    PutEnd,
    ServerAddress,
    SocketAddress,
)

SENDING = ".sending"
SENT = ".sent"
PAUSES_S: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)  # between attempts, and up to twice as long
PATIENCE_S = 30.0  # the patience with a server that takes nothing and answers nothing
_NAMED_AFTER_S = 3.0  # seconds of such silence
_FIRST_CONNECTIONS = 4
_MOST_CONNECTIONS = 16  # connections to one server
_MOST_BYTES = 1 << 24  # bytes of envelopes on their way to one server, unless one is longer
_TICK_S = 0.05  # between looks at what takes too long
_LONGEST_TICK_S = 1.0  # the longest time that is counted as a server's silence
_SILENCE = PutEnd(Broken.UNREACHED, LATE, is_late=True)
_LATE_BEFORE = "not tried, as the server did not answer an earlier one in time"


class Outcome(StrEnum):
    """The end of an envelope's sending."""

    STORED = "stored"
    UNKNOWN = "unknown until the party lists its uploads"
    FAILED = "not stored"


@dataclass(frozen=True)
class SendingEnd:
    """The end of the sending of an envelope.

    Attributes:
        outcome: The state of the envelope, as far as it is known.
        answer: The server's last answer, in words.
        is_late: Whether the server kept this client waiting until it gave up.
    """

    outcome: Outcome
    answer: str
    is_late: bool = False

    def __str__(self) -> str:
        return f"{self.outcome} ({self.answer})"


SUFFIXES = {Outcome.STORED: SENT, Outcome.FAILED: SUFFIX, Outcome.UNKNOWN: SENDING}


def not_tried(outcome: Outcome, answer: str, *, is_late: bool) -> SendingEnd:
    """Return the end of an envelope that was not tried.

    Args:
        outcome: The state of the envelope, as far as it is known.
        answer: The server's last answer to another one.
        is_late: Whether the server had not answered that one in time.
    """
    why = _LATE_BEFORE if is_late else f"not tried, as for an earlier one: {answer}"
    return SendingEnd(outcome, why)


class SentEnvelopes:
    """The number of all parties' envelopes that have come to an end, for several threads."""

    def __init__(self, total: int) -> None:
        self._done = 0
        self._total = total
        self._lock = Lock()

    def add(self) -> None:
        """Count another envelope, and report."""
        with self._lock:
            self._done += 1
            tell(self._done, self._total)


@dataclass
class _Upload:
    """One envelope that is to be sent.

    Attributes:
        stem: The name of its file without the suffix.
        suffix: The suffix.
        unanswered: Whether a request to put it may have stored it without saying so.
        attempts: How often the server failed to take it.
        was_dropped: Whether its request was lost with a connection that had taken others.
        begun: The time at which the request began, by the monotonic clock.
    """

    stem: str
    suffix: str
    unanswered: bool
    attempts: int = 0
    was_dropped: bool = False
    begun: float = 0.0

    @classmethod
    def from_name(cls, name: str) -> "_Upload":
        """Return the envelope of a file."""
        stem, dot, suffix = name.rpartition(".")
        return cls(stem, dot + suffix, dot + suffix == SENDING)


class _Lookup(ContextThread):
    """Looks up a server's addresses, for as long as it takes.

    Attributes:
        addresses: The addresses that were found, None before the end.
    """

    def __init__(self, site: ServerAddress) -> None:
        super().__init__(daemon=True, target=self._look_up)
        self.addresses: list[SocketAddress] | None = None
        self._site = site

    def _look_up(self) -> None:
        try:
            found = self._site.addresses()
        except (OSError, UnicodeError):
            found = []
        self.addresses = found


class UploadServer(Owner):
    """One party's server, and the envelopes that it is to take.

    Guarantees: a file's name ends in `.sending` before a byte of it is sent, and in `.sent` only once the
    server has confirmed that it stored the envelope. A server that takes nothing costs `PATIENCE_S`, however
    many envelopes wait for it.
    [test: tests/harness/uploads/test_sending.py, tests/harness/uploads/test_upload_servers.py]

    Attributes:
        ends: The number of envelopes by how their sending ended.
    """

    def __init__(
        self,
        address: str,
        directory: Path,
        names: Sequence[str],
        context: ssl.SSLContext,
        selector: BaseSelector,
        *,
        progress: SentEnvelopes,
        say: Say,
    ) -> None:
        """Take the envelopes of a directory.

        Args:
            address: An https URL. One that ends in a slash goes before the name of each envelope's file. Any
                other is for a single envelope.
            directory: The directory of the envelopes' files.
            names: The names of these files, which end in `.share` or `.sending`.
            context: The context of TLS.
            selector: Waits for all connections.
            progress: A function that is told of each envelope's end.
            say: A function that is told of a server that does not answer.
        """
        self.ends: Counter[SendingEnd] = Counter()
        self._destination = Destination.from_url(address)
        self._site = self._destination.site
        self._is_for_many = address.endswith("/")
        self._context = context
        self._selector = selector
        self._progress = progress
        self._say = say
        self._directory = os.fspath(directory)
        self._waiting = deque(map(_Upload.from_name, names))
        self._busy: dict[Connection, _Upload] = {}
        self._idle: list[Connection] = []
        self._lookup: _Lookup | None = None
        self._addresses: list[SocketAddress] = []
        self._most = _FIRST_CONNECTIONS
        self._failures = 0  # one after another, the pauses between which grow
        self._paused_at = 0.0
        self._paused_until = 0.0
        self._silent_s = 0.0  # since it last took or answered something
        self._ticked_at = time.monotonic()
        self._last = _SILENCE
        self._said: set[str] = set()
        self._is_said_to_fail = False

    @property
    def has_work(self) -> bool:
        """Whether an envelope has not come to its end."""
        return bool(self._waiting or self._busy)

    def ready(self, connection: Connection) -> None:
        answer = connection.go_on()
        if answer is not None:
            self._answered(connection, answer)
            self._begin(time.monotonic())
        elif connection in self._idle and not connection.is_idle:
            self._idle.remove(connection)

    def tick(self, now: float) -> None:
        """Begin what can begin, and end what takes too long."""
        for connection in list(self._busy):
            answer = connection.check_time(now)
            if answer is not None:
                self._answered(connection, answer)
            elif connection.moved > self._ticked_at:
                self._silent_s = 0.0
        # Time in which this process was stopped, as by a machine that slept, is no server's silence.
        self._silent_s += min(now - self._ticked_at, _LONGEST_TICK_S)
        self._ticked_at = now
        if self.has_work and self._silent_s > _NAMED_AFTER_S:
            self._name(self._last.words if self._failures else f"no answer for {_NAMED_AFTER_S:g} s")
        if self.has_work and self._silent_s > PATIENCE_S:
            self._give_up(self._last)
        self._begin(now)

    def close(self) -> None:
        """End all connections; files keep the names that they have."""
        for connection in (*self._busy, *self._idle):
            connection.close()

    def _begin(self, now: float) -> None:
        """Begin further requests, as far as the server takes them."""
        while self._waiting and now >= self._paused_until and len(self._busy) < self._most:
            if not self._addresses and not self._idle and not self._found_addresses(now):
                return
            connection = self._idle.pop() if self._idle else self._new_connection()
            self._put(connection, self._waiting.popleft(), now)

    def _new_connection(self) -> Connection:
        return Connection(self, self._site, self._addresses, self._context, self._selector)

    def _found_addresses(self, now: float) -> bool:
        """Return whether the server's addresses are known by now; look them up otherwise."""
        if self._lookup is None:
            self._lookup = _Lookup(self._site)
            self._lookup.start()
        found = self._lookup.addresses
        if found is None:
            return False
        self._lookup = None
        self._addresses = found
        if not found:
            upload = self._waiting.popleft()
            upload.begun = now
            self._failed(upload, PutEnd(Broken.UNREACHED, NOBODY), now)
        return bool(found)

    def _put(self, connection: Connection, upload: _Upload, now: float) -> None:
        """Begin to send an envelope, whose file says from now on that it may have been sent."""
        self._rename(upload, SENDING)
        with open(f"{self._directory}/{upload.stem}{SENDING}", "rb", buffering=0) as file:  # noqa: PTH123
            body = file.read()
        if len(body) * self._most > _MOST_BYTES:
            self._most = max(1, _MOST_BYTES // len(body))
        name = f"{upload.stem}{SUFFIX}" if self._is_for_many else ""
        upload.begun = now
        self._busy[connection] = upload
        answer = connection.put(self._destination.request_to_put(name.encode(), body))
        if answer is not None:
            self._answered(connection, answer)

    def _answered(self, connection: Connection, answer: PutEnd) -> None:
        """Take note of how a request ended."""
        now = time.monotonic()
        upload = self._busy.pop(connection)
        if connection.is_idle:
            self._idle.append(connection)
        status = answer.status
        if status is Broken.UNANSWERED or (isinstance(status, int) and status >= 500):
            upload.unanswered = True
        if answer.was_dropped and not upload.was_dropped:
            upload.was_dropped = True
            self._waiting.appendleft(upload)
        elif status is Broken.UNTRUSTED:
            self._end(upload, self._outcome(upload), answer)
            self._give_up(answer)
        elif isinstance(status, int) and status != 429 and status < 500:
            self._good()
            is_stored = 200 <= status < 300
            self._end(upload, Outcome.STORED if is_stored else self._outcome(upload), answer)
        else:
            self._failed(upload, answer, now)

    def _good(self) -> None:
        """Take note that the server answers, and ask it for one more at a time."""
        self._silent_s = 0.0
        self._failures = 0
        self._most = min(self._most + 1, _MOST_CONNECTIONS)
        if self._is_said_to_fail:
            self._is_said_to_fail = False
            self._say_once(f"{self._site.named} answers again.")

    def _failed(self, upload: _Upload, answer: PutEnd, now: float) -> None:
        """Try an upload again after a pause, unless the server or this upload failed too often."""
        self._last = answer
        if answer.status != 429:  # the server has to say no other thing than to wait
            upload.attempts += 1
        if upload.begun >= self._paused_at:  # else it was under way as another failed
            self._failures += 1
            self._most = 1
            self._paused_at = now
            pause = PAUSES_S[min(self._failures, len(PAUSES_S)) - 1] if PAUSES_S else 0
            self._paused_until = now + pause * (1 + secrets.randbelow(1000) / 1000)
        if self._failures > len(PAUSES_S):
            self._end(upload, self._outcome(upload), answer)
            self._give_up(answer)
            return
        self._name(answer.words)
        if upload.attempts > len(PAUSES_S):
            self._end(upload, self._outcome(upload), answer)
        else:
            self._waiting.appendleft(upload)

    def _outcome(self, upload: _Upload) -> Outcome:
        """Return the outcome of an envelope that is not known to be stored."""
        return Outcome.UNKNOWN if upload.unanswered else Outcome.FAILED

    def _give_up(self, last: PutEnd) -> None:
        """End the sending of all envelopes, as the server does not take them."""
        left = len(self._waiting) + len(self._busy)
        if left:
            self._say(f"{self._site.named} is given up ({last.words}): {left:,} envelopes for it wait here.")
        for connection, upload in list(self._busy.items()):
            upload.unanswered = upload.unanswered or connection.has_sent
            connection.close()
            self._end(upload, self._outcome(upload), last)
        self._busy.clear()
        while self._waiting:
            upload = self._waiting.popleft()
            outcome = self._outcome(upload)
            if upload.attempts:
                self._end(upload, outcome, last)
            else:
                self._count(upload, not_tried(outcome, last.words, is_late=last.is_late))

    def _end(self, upload: _Upload, outcome: Outcome, last: PutEnd) -> None:
        """Count an envelope that was tried."""
        self._count(upload, SendingEnd(outcome, last.words, is_late=last.is_late))

    def _count(self, upload: _Upload, end: SendingEnd) -> None:
        """Name an envelope's file by its end, and count it."""
        self._rename(upload, SUFFIXES[end.outcome])
        self.ends[end] += 1
        self._progress.add()

    def _rename(self, upload: _Upload, suffix: str) -> None:
        if upload.suffix != suffix:
            stem = f"{self._directory}/{upload.stem}"
            os.rename(f"{stem}{upload.suffix}", f"{stem}{suffix}")  # noqa: PTH104  a Path takes longer than it
            upload.suffix = suffix

    def _name(self, words: str) -> None:
        """Say that the server fails, unless that was said."""
        if not self._is_said_to_fail:
            self._is_said_to_fail = True
            self._say_once(
                f"{self._site.named}: {words}. It is tried for {PATIENCE_S:g} s, and the others get theirs."
            )

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def send_all(servers: Sequence[UploadServer], selector: BaseSelector) -> None:
    """Send all envelopes of all servers; on an exception, files keep the names that they have by then."""
    try:
        next_tick = 0.0
        while any(server.has_work for server in servers):
            for key, _ in selector.select(_TICK_S):
                connection: Connection = key.data
                connection.owner.ready(connection)
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + _TICK_S
                for server in servers:
                    server.tick(now)
    finally:
        for server in servers:
            server.close()
