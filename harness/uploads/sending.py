"""Sends a client's envelopes to the parties' servers, and says how the sending of each ended.

The name of an envelope's file ends in `.share` before it is sent, in `.sending` from then on, and in `.sent`
once a server has confirmed that it stored the envelope.
"""

import os
import ssl
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from selectors import DefaultSelector
from threading import Event

from fairshares.harness.errors import OptionError, ShareError, named, refuse
from fairshares.harness.system import stores
from fairshares.harness.system.files import in_turn
from fairshares.harness.system.places import directory_fault, way_fault
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.harness.system.threads import ContextPool
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.invitations import addresses_in
from fairshares.harness.uploads.limited_connections import LATE, Destination
from fairshares.harness.uploads.task import CERTIFICATE, URLS, Task
from fairshares.harness.uploads.upload_servers import (
    SENDING,
    SENT,
    SUFFIXES,
    Outcome,
    SendingEnd,
    SentEnvelopes,
    UploadServer,
    not_tried,
    send_all,
)

_HTTPS = "https://"
SCHEMES = (_HTTPS, "s3://", "gs://", "sftp://")
TO_TASK = "task"  # the word in place of addresses: those in the task


def addresses_for(task: Task, to: str, certificate: Path | None) -> list[str]:
    """Return the address for each party's uploads, party 0 first.

    Args:
        task: The task that they are for.
        to: `TO_TASK` for the addresses in the task, or an invitation's one-time link; otherwise a URL per
            party, separated by spaces.
        certificate: The client's certificate, for servers that ask; None without one.

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


def all_stored(ends: Iterable[Mapping[SendingEnd, int]]) -> bool:
    """Return whether every envelope is known to be stored, by what `send` returns."""
    return all(end.outcome is Outcome.STORED for of_party in ends for end in of_party)


def check_stored(ends: Iterable[Mapping[SendingEnd, int]], out: Path) -> None:
    """Raise ShareError unless every upload is known to be stored at every party.

    Args:
        ends: The result of `send`.
        out: The directory that keeps the uploads.
    """
    if not all_stored(ends):
        raise ShareError(
            f"Not every upload is known to be stored; {out} keeps them. Send the rest by this "
            f"command without {named('records')}; sharing again would count the records twice."
        )


def send(
    out: Path, addresses: Sequence[str], certificate: Path | None = None, say: Say = nothing_said
) -> list[Counter[SendingEnd]]:
    """Send the envelopes in a directory that are not yet known to be stored, to all parties at the same time.

    Guarantees: nothing is sent from a place where others could have put envelopes of theirs.
    [test: tests/harness/uploads/test_places_of_others.py]

    Args:
        out: The directory, in which each party has a directory `party-<i>`.
        addresses: A URL for each party, of a web server or an object store. A URL that ends in a slash goes
            before the name of each envelope's file. Any other URL is for a single envelope.
        certificate: A PEM file with the client's certificate and key, for servers that ask for it.
        say: A function that is told of servers that fail, while the other servers get their files.
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
        if address.startswith(_HTTPS):
            try:
                Destination.from_url(address)
            except ValueError as error:
                raise ShareError(f"{address} is no URL to send to: {error}.") from None
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
            return _sent(out, addresses, context, say)
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


def _sent(
    out: Path, addresses: Sequence[str], context: ssl.SSLContext, say: Say
) -> list[Counter[SendingEnd]]:
    """Send the envelopes as `send`, from a directory that is the user's alone."""
    found = False
    to_send: list[list[str]] = []  # names of files, by party
    for party, address in enumerate(addresses):
        directory = out / f"party-{party}"
        there = _envelopes_in(directory)
        found = found or bool(there)
        names = sorted(name for name in there if not name.endswith(SENT))
        if len(names) > 1 and not address.endswith("/"):
            raise ShareError(f"{address} is for one upload, and {directory} holds {len(names)}.")
        to_send.append(names)
    if not found:
        raise ShareError(f"{out} holds no uploads; share first, or name another.")
    progress = SentEnvelopes(sum(map(len, to_send)))
    stopped = Event()
    with closing(DefaultSelector()) as selector, ContextPool(len(addresses)) as pool:
        servers: dict[int, UploadServer] = {}  # servers by party
        in_stores = {}  # the sender of each store, by party
        for party, (address, names) in enumerate(zip(addresses, to_send, strict=True)):
            directory = out / f"party-{party}"
            if address.startswith(_HTTPS):
                servers[party] = UploadServer(
                    address, directory, names, context, selector, progress=progress, say=say
                )
            else:
                paths = [directory / name for name in names]
                in_stores[party] = pool.submit(_send_to_store, address, paths, progress, stopped)
        try:
            send_all([*servers.values()], selector)
            ends = {party: sent.result() for party, sent in in_stores.items()}
        finally:
            stopped.set()
    ends.update({party: server.ends for party, server in servers.items()})
    return [ends[party] for party in range(len(addresses))]


def _envelopes_in(directory: Path) -> list[str]:
    """Return the names of a party's envelopes, in any order; none without a directory."""
    if not directory.exists():
        return []
    suffixes = (SUFFIX, SENDING, SENT)
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.name.endswith(suffixes)]


def _send_to_store(
    address: str, paths: Sequence[Path], progress: SentEnvelopes, stopped: Event
) -> Counter[SendingEnd]:
    """Send envelopes to an object store, one after another; return their number by how that ended.

    Args:
        address: As `send` has it.
        paths: The envelopes' files.
        progress: A function that is told of each envelope's end.
        stopped: Ends the sending before the next envelope.
    """
    ends = Counter[SendingEnd]()
    is_late = False
    for path in paths:
        if stopped.is_set():
            break
        was_sent_before = path.suffix == SENDING
        if is_late:  # otherwise a store that keeps each upload waiting would keep its client for days
            outcome = Outcome.UNKNOWN if was_sent_before else Outcome.FAILED
            ends[not_tried(outcome, LATE, is_late=True)] += 1
        else:
            url = f"{address}{path.stem}{SUFFIX}" if address.endswith("/") else address
            sending = path.rename(path.with_suffix(SENDING))
            end = put_in_store(url, sending.read_bytes(), unanswered=was_sent_before)
            sending.rename(path.with_suffix(SUFFIXES[end.outcome]))
            ends[end] += 1
            is_late = end.is_late
        progress.add()
    return ends


def put_in_store(url: str, body: bytes, *, unanswered: bool) -> SendingEnd:
    """Put one file into an object store, unless its name is taken; return how that ended.

    A store's library cannot tell whose bytes have a taken name. Raises MissingPackageError without it.
    """
    store, path = stores.store_of(url)
    try:
        stores.put(store, path, body)
    except TimeoutError:
        return SendingEnd(Outcome.UNKNOWN, LATE, is_late=True)
    except FileExistsError:
        return SendingEnd(Outcome.UNKNOWN, "something has the name")
    except (PermissionError, FileNotFoundError) as error:
        return SendingEnd(Outcome.UNKNOWN if unanswered else Outcome.FAILED, str(error))
    except Exception as error:  # noqa: BLE001  libraries of stores raise what they like
        return SendingEnd(Outcome.UNKNOWN, str(error))
    return SendingEnd(Outcome.STORED, "written")
