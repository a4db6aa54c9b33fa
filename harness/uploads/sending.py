"""Sends a client's envelopes to the parties' servers, and says how the sending of each ended.

The name of an envelope's file ends in `.share` before it is sent, in `.sending` from then on, and in `.sent`
once a server has confirmed that it stored the envelope.
"""

import os
import secrets
import ssl
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from fairshares.harness.errors import OptionError, ShareError, named, refuse
from fairshares.harness.system import stores
from fairshares.harness.system.files import in_turn
from fairshares.harness.system.places import directory_fault, way_fault
from fairshares.harness.system.progress import tell
from fairshares.harness.uploads import limited_connections
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.invitations import addresses_in
from fairshares.harness.uploads.task import CERTIFICATE, URLS, Task

_HTTPS = "https://"
SCHEMES = (_HTTPS, "s3://", "gs://", "sftp://")
TO_TASK = "task"  # in place of addresses: those in the task
_SENDING = ".sending"
_SENT = ".sent"
_TIMEOUT_S = 30.0  # of silence
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # between attempts, and up to twice as long
_LATE = "it did not answer in time"
_BROKE = "the connection broke"
_NOT_TRIED = "not tried, as the server did not answer an earlier one in time"


class Outcome(StrEnum):
    """The end of an envelope's sending."""

    STORED = "stored"
    UNKNOWN = "unknown until the party lists its uploads"
    FAILED = "not stored"


@dataclass(frozen=True)
class SendingEnd:
    """How the sending of an envelope ended.

    Attributes:
        outcome: What is known of the envelope.
        answer: The server's last answer, in words.
        is_late: Whether the server kept this client waiting until it gave up.
    """

    outcome: Outcome
    answer: str
    is_late: bool = False

    def __str__(self) -> str:
        return f"{self.outcome} ({self.answer})"


def addresses_for(task: Task, to: str, certificate: Path | None) -> list[str]:
    """Return where each party's uploads go, party 0 first.

    Args:
        task: The task that they are for.
        to: `TO_TASK` for the addresses in the task, or an invitation's one-time link; otherwise a URL per
            party, separated by spaces.
        certificate: The client's, for servers that ask; None without one.

    Raises:
        OptionError: There are more or fewer addresses than parties, or the task's servers want a certificate
            or a URL for each upload.
    """
    if to == TO_TASK:
        addresses = [party.address for party in task.parties]
    elif "#task=" in to:
        addresses = addresses_in(to, task)
    else:
        addresses = to.split()
    refuse(
        OptionError,
        (
            len(addresses) != len(task.parties),
            f"The task has {len(task.parties)} parties; {named('to')} names {len(addresses)}.",
        ),
        (
            task.admission == CERTIFICATE and not certificate,
            f"The task's servers want a certificate of each client; show yours by {named('certificate')}.",
        ),
        (
            task.admission == URLS and any(address.endswith("/") for address in addresses),
            f"The task has a URL of its own for each upload; name those of yours by {named('to')}.",
        ),
    )
    return addresses


def check_stored(ends: Iterable[Mapping[SendingEnd, int]], out: Path) -> None:
    """Raise ShareError unless every upload is known to be stored at every party.

    Args:
        ends: What `send` returns.
        out: The directory that keeps the uploads.
    """
    if any(end.outcome is not Outcome.STORED for of_party in ends for end in of_party):
        raise ShareError(
            f"Not every upload is known to be stored; {out} keeps them. Send the rest by this "
            f"command without {named('records')}; sharing again would count the records twice."
        )


def send(out: Path, addresses: Sequence[str], certificate: Path | None = None) -> list[Counter[SendingEnd]]:
    """Send the envelopes in a directory that are not yet known to be stored.

    Guarantees: nothing is sent from a place where others could have put envelopes of theirs.
    [test: tests/harness/uploads/test_places_of_others.py]

    Args:
        out: The directory, in which each party has a directory `party-<i>`.
        addresses: A URL for each party, of a web server or an object store. A URL that ends in a slash goes
            before the name of each envelope's file. Any other URL is for a single envelope.
        certificate: A PEM file with the client's certificate and key, for servers that ask for it.
    Returns:
        For each party, the number of envelopes by how their sending ended.
    Raises:
        ShareError: An address has no known scheme, or is for one envelope where there are several. Or there
            is no envelope or no certificate, or others could replace envelopes.
    """
    for address in addresses:
        if not address.startswith(SCHEMES):
            raise ShareError(
                f"{address or 'A party without an address'} is no URL to send to: {', '.join(SCHEMES)}."
            )
    context = ssl.create_default_context()
    try:
        if certificate:
            context.load_cert_chain(certificate)
    except OSError:
        raise ShareError(
            f"{certificate} does not hold a certificate and its key, as PEM; correct it."
        ) from None
    try:
        _check_places(out, len(addresses))
        with in_turn(out):
            return _sent(out, addresses, urllib3.PoolManager(timeout=_TIMEOUT_S, ssl_context=context))
    except OSError as error:
        raise ShareError(f"Cannot send from {out}: {error.strerror}; share first, or name another.") from None


def _check_places(out: Path, parties: int) -> None:
    """Raise ShareError where others could have put envelopes of theirs in the place of this user's."""
    directories = [out / f"party-{party}" for party in range(parties)]
    reasons = [way_fault(out)]
    reasons += [directory_fault(directory) for directory in directories if os.path.lexists(directory)]
    for reason in reasons:
        if reason is not None:
            raise ShareError(
                f"{reason}, so others could have put uploads of theirs in the place of yours; nothing was "
                f"sent. Share again, by a new {named('out')} in a directory that only you can change."
            )


def _sent(out: Path, addresses: Sequence[str], pool: urllib3.PoolManager) -> list[Counter[SendingEnd]]:
    """Send the envelopes as `send`, from a directory that is the user's alone, over a pool's connections."""
    found = False
    to_send: list[list[Path]] = []  # by party
    for party, address in enumerate(addresses):
        files = sorted((out / f"party-{party}").glob("*.s*"))
        found = found or bool(files)
        paths = [path for path in files if path.suffix != _SENT]
        if len(paths) > 1 and not address.endswith("/"):
            raise ShareError(f"{address} is for one upload, and {paths[0].parent} holds {len(paths)}.")
        to_send.append(paths)
    if not found:
        raise ShareError(f"{out} holds no uploads; share first, or name another.")
    total = sum(len(paths) for paths in to_send)
    done = 0
    ends_of_parties: list[Counter[SendingEnd]] = []
    for address, paths in zip(addresses, to_send, strict=True):
        ends: Counter[SendingEnd] = Counter()
        is_late = False
        for path in paths:
            done += 1
            if is_late:  # otherwise a server that keeps each upload waiting would keep its client for days
                outcome = Outcome.UNKNOWN if path.suffix == _SENDING else Outcome.FAILED
                ends[SendingEnd(outcome, _NOT_TRIED)] += 1
                continue
            end = _send_file(path, address, pool)
            ends[end] += 1
            is_late = end.is_late
            tell(done, total)
        ends_of_parties.append(ends)
    return ends_of_parties


def _send_file(path: Path, address: str, pool: urllib3.PoolManager) -> SendingEnd:
    """Send one envelope, and name its file by the outcome; return how that ended."""
    was_sent_before = path.suffix == _SENDING
    url = f"{address}{path.stem}{SUFFIX}" if address.endswith("/") else address
    sending = path.rename(path.with_suffix(_SENDING))
    body = sending.read_bytes()
    if url.startswith(_HTTPS):
        end = put(pool, url, body, unanswered=was_sent_before)
    else:
        end = put_in_store(url, body, unanswered=was_sent_before)
    suffixes = {Outcome.STORED: _SENT, Outcome.FAILED: SUFFIX, Outcome.UNKNOWN: _SENDING}
    sending.rename(path.with_suffix(suffixes[end.outcome]))
    return end


def put(pool: urllib3.PoolManager, url: str, body: bytes, *, unanswered: bool) -> SendingEnd:
    """Put one file on a web server, again if need be; return how that ended.

    A name that is taken (409 or 412) is no success, as a stranger's bytes may have it. If an earlier request
    of this client had no answer, these bytes may be the client's own, and the outcome is unknown.

    Guarantees: of an answer only status and headers are read, as its body could have no end. Each attempt
    ends, whatever the server sends and however slowly.
    [test: tests/harness/uploads/test_sending.py]

    Args:
        pool: Makes the connections.
        url: Where the file goes.
        body: The file.
        unanswered: Whether an earlier request to put this file had no answer.
    """
    limited_connections.limit(pool, url)
    reply = _request(pool, url, body)
    for pause in _PAUSES_S:
        unanswered = unanswered or reply.may_have_stored
        if not reply.may_change:
            break
        time.sleep(pause * (1 + secrets.randbelow(1000) / 1000))
        reply = _request(pool, url, body)
    if reply.is_success:
        return SendingEnd(Outcome.STORED, reply.answer)
    unanswered = unanswered or reply.may_have_stored
    is_trusted = reply.status is not _Broken.UNTRUSTED
    outcome = Outcome.UNKNOWN if unanswered and is_trusted else Outcome.FAILED
    return SendingEnd(outcome, reply.answer, is_late=reply.status is _Broken.LATE)


class _Broken(Enum):
    """How a request ended without a status."""

    UNTRUSTED = auto()  # the server's certificate is not trusted here
    UNREACHED = auto()  # nobody took the connection, so nothing was sent
    UNANSWERED = auto()  # the server may have taken the file
    LATE = auto()  # it may have taken the file, and the time to answer was over


@dataclass(frozen=True)
class _Reply:
    """What a request led to.

    Attributes:
        status: The answer's HTTP status, or why there is none.
        answer: The same in words.
    """

    status: int | _Broken
    answer: str

    @property
    def is_success(self) -> bool:
        """Whether the server stored the file."""
        return isinstance(self.status, int) and 200 <= self.status < 300

    @property
    def may_change(self) -> bool:
        """Whether another attempt may end otherwise."""
        if isinstance(self.status, int):
            return self.status == 429 or self.status >= 500
        return self.status is not _Broken.UNTRUSTED

    @property
    def may_have_stored(self) -> bool:
        """Whether the server may have stored the file without saying it."""
        if isinstance(self.status, int):
            return self.status >= 500
        return self.status in (_Broken.UNANSWERED, _Broken.LATE)


def _request(pool: urllib3.PoolManager, url: str, body: bytes) -> _Reply:
    """Send a file once."""
    headers = {"Content-Type": "application/octet-stream", "If-None-Match": "*"}
    try:
        response = pool.request(
            "PUT", url, body=body, headers=headers, retries=False, redirect=False, preload_content=False
        )
        if response.length_remaining == 0:
            response.read()  # nothing, and frees the connection for the next upload
        else:
            response.close()
    except SSLError as error:
        if isinstance(error.args[0], ssl.SSLCertVerificationError):
            reason = error.args[0].verify_message
            return _Reply(_Broken.UNTRUSTED, f"its certificate is not trusted here: {reason}")
        return _Reply(_Broken.UNANSWERED, _BROKE)
    except (NewConnectionError, ConnectTimeoutError):
        return _Reply(_Broken.UNREACHED, "nobody answers")
    except HTTPError as error:
        if _was_late(error):
            return _Reply(_Broken.LATE, _LATE)
        return _Reply(_Broken.UNANSWERED, _BROKE)
    return _Reply(response.status, f"HTTP {response.status}")


def _was_late(error: HTTPError) -> bool:
    """Return whether a request ended as its time was over, and not by the other side."""
    if isinstance(error, ProtocolError):  # is what urllib3 makes of what sending raises
        return any(isinstance(reason, TimeoutError) for reason in error.args)
    return isinstance(error, ReadTimeoutError)


def put_in_store(url: str, body: bytes, *, unanswered: bool) -> SendingEnd:
    """Put one file into an object store, unless its name is taken; return as `put`.

    A store's library cannot tell whose bytes have a taken name. Raises MissingPackageError without it.
    """
    store, path = stores.store_of(url)
    try:
        stores.put(store, path, body)
    except TimeoutError:
        return SendingEnd(Outcome.UNKNOWN, _LATE, is_late=True)
    except FileExistsError:
        return SendingEnd(Outcome.UNKNOWN, "something has the name")
    except (PermissionError, FileNotFoundError) as error:
        return SendingEnd(Outcome.UNKNOWN if unanswered else Outcome.FAILED, str(error))
    except Exception as error:  # noqa: BLE001  libraries of stores raise what they like
        return SendingEnd(Outcome.UNKNOWN, str(error))
    return SendingEnd(Outcome.STORED, "written")
