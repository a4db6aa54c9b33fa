"""The coordinator's end of the connection to a host's agent.

The connection goes over ssh, which must know the host's key.
"""

import contextlib
import logging
import math
import queue
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import paramiko
from fabric import Connection as Ssh

from fairshares.harness import errors
from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    HostUnreachableError,
    named_call,
    named_command,
    surface_name_now,
)
from fairshares.harness.hosts import wire
from fairshares.harness.hosts.frames import (
    WIRE_VERSION,
    AnswerFrame,
    EndFrame,
    ErrorFrame,
    Hello,
    Role,
    read_frame,
)
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import Bye, Message, PartyEnd, answer_type
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.protocols.json_values import JsonValue

T = TypeVar("T")

_CONNECT_S = 10.0
_START_S = 600.0  # until an agent has started
_SET_UP_S = 3600.0  # until a set-up has started, which may install packages
_LEAVE_S = 10.0
_SHOWN = 1000  # the most characters that are shown of a host's own message
_MOST_SAID_BYTES = 1 << 20  # bytes of what a host printed before it went away
# The exit codes by which the command that starts an agent says what the host lacks.
_NO_PROJECT = 71
_NO_ENVIRONMENT = 72
_NO_ROLE = 73
_AnswerQueue = queue.SimpleQueue[AnswerFrame | ErrorFrame | None]  # one frame, or None if none will come


class _UnaskedError(Exception):
    """A host sends an answer that nobody has asked for."""


class HostConnection(wire.Endpoint):
    """A process on a host, which this machine starts over ssh and asks for answers.

    The process is the host's `agent` or its `setup`. An ssh key that may start the agent alone cannot start
    the `setup`.

    Guarantees: the connection buffers one message at most that nobody has asked for, and each wait for the
    host has a limit.
    [test: tests/harness/hosts/test_connection.py]
    """

    def __init__(self, host: Host, role: Role = Role.AGENT) -> None:
        """Start the process, and wait until it says that it is ready.

        Args:
            host: The host to which the connection goes.
            role: The role of the process.

        Raises:
            HostUnreachableError: ssh does not reach the host, or the process does not start in time.
            HostUnfitError: The host runs something else, or another version of FairShares.
        """
        self.host = host
        self._role = role
        self._ssh = _open(host)
        try:
            self._channel: paramiko.Channel = self._ssh.create_session()
            self._channel.exec_command(_command(host, role))
        except (paramiko.SSHException, OSError) as error:
            self._ssh.close()
            raise HostUnreachableError(f"{host.title}: ssh opened no session: {error}.") from None
        super().__init__(-math.inf)  # so many silent beats that a start may take any time
        self._hello: queue.SimpleQueue[Hello | None] = queue.SimpleQueue()  # takes one, or None if none comes
        self._awaited: list[_AnswerQueue] = []  # queues in the order in which the answers were asked for
        self._ending: FairSharesError | None = None  # the error that ended the connection
        self._party_end: PartyEnd | None = None  # how the host's party ended, if it has, as the host says
        self.begin(self._channel.makefile("rb"))
        try:
            with self._patient(_SET_UP_S if role is Role.SETUP else _START_S):
                ready = self._hello.get()
            if ready is None:
                raise self._why_gone()
            self._check_ready(ready)
        except BaseException:
            self.close()
            raise

    def _check_ready(self, ready: Hello) -> None:
        """Raise HostUnfitError unless the process that is ready has the wanted role and this version."""
        if ready.role is not self._role:
            raise HostUnfitError(
                f"{self.host.title}: this ssh key may start the agent only, which makes no keys. Use a login "
                "of the host's owner, or have each owner run "
                f"{named_call('hosts.setup', party='N', directory='DIR')} on its host."
            )
        if ready.version == WIRE_VERSION:
            return
        where = "on this machine" if ready.version > WIRE_VERSION else f"there, in {self.host.project}"
        raise HostUnfitError(
            f"{self.host.title} has another version of FairShares ({ready.version}, here {WIRE_VERSION}): "
            f"update it {where}; both need the same commit."
        )

    @property
    def lost(self) -> bool:
        """Whether the connection is over."""
        return self.over.is_set()

    def ask(self, message: Message[T]) -> T:
        """Return the answer to a message, written for whoever reads messages of this process now.

        Raises:
            HostUnreachableError: The host went away, or gives no answer within the message's time.
            HostUnfitError: The answer has another type.
            FairSharesError: The agent refuses, with an error of its own.
        """
        awaited = _AnswerQueue()
        with self._patient(message.patience_s):
            with self.writing:
                self._awaited.append(awaited)
                self.write(wire.encode(message.line(surface_name_now())))
            if self.lost:
                awaited.put(None)
            frame = awaited.get()
        if frame is None:
            raise self._why_gone()
        if isinstance(frame, ErrorFrame):
            raise _error_class(frame.error)(f"{self.host.title}: {frame.text[:_SHOWN]}")
        return checked(answer_type(type(message)), frame.answer, self.host, message.name())

    def party_end(self) -> PartyEnd | None:
        """Return how the host's party ended, or None if it has not ended yet."""
        return self._party_end

    def forget_end(self) -> None:
        """Forget how an earlier run's party ended."""
        self._party_end = None

    def close(self) -> None:
        """End the agent."""
        if not self.lost:
            with self._patient(_LEAVE_S):
                self.send(Bye())
                self._channel.status_event.wait(_LEAVE_S)
        self.lose()
        self._ssh.close()

    def _patient(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Lose the connection if the block takes longer than so many seconds."""
        return wire.limited(seconds, self.lose, f"it gave no answer within {seconds:g} s")

    def _why_gone(self) -> FairSharesError:
        """Return the error that says why the host's process is gone."""
        status = self._channel.exit_status
        host = self.host
        last_line = self._last_line()
        if status == _NO_PROJECT:
            return HostUnfitError(
                f"{host.title}: FairShares is not in {host.project}; clone it there, or correct `project` in "
                "hosts.toml."
            )
        if status == _NO_ROLE:
            return HostUnfitError(
                f"{host.title} has an older version of FairShares in {host.project}: update it there; both "
                "need the same commit."
            )
        if status == _NO_ENVIRONMENT and self._role is Role.SETUP:
            return HostUnfitError(f"{host.title}: ./inv could not make .venv{last_line}.")
        if status == _NO_ENVIRONMENT:
            return HostUnfitError(
                f"{host.title}: {host.project} has no .venv yet; {named_command('hosts.setup')} makes it."
            )
        if self._ending is not None:
            return self._ending
        if status >= 0:
            return HostUnreachableError(
                f"{host.title} went away: its {self._role} ended with exit code {status}{last_line}."
            )
        return HostUnreachableError(f"{host.title} went away: the connection broke{last_line}.")

    def _last_line(self) -> str:
        """Return a colon and the last line of what the host's process printed, or "" if it printed none."""
        if not self._channel.recv_stderr_ready():
            return ""
        printed = self._channel.recv_stderr(_MOST_SAID_BYTES).decode(errors="replace").strip()
        if not printed:
            return ""
        line = printed.splitlines()[-1]
        return f": {line[:_SHOWN].rstrip('.')}"

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, paramiko.SSHException):  # `_listen` notices a broken channel
            self._channel.sendall(line)

    def _listen(self, incoming: BinaryIO) -> None:
        why: str | None = None
        try:
            with incoming:
                self._take_all(self.messages(incoming))
        except OSError:
            pass  # the connection broke, for which there is no more to say
        except ValueError:
            why = "what it says is no message of FairShares; does anything else print there at login?"
        except _UnaskedError:
            why = "it answers what it was not asked"
        except FairSharesError as error:  # what it says is of no known form
            self._end_by(error)
        else:
            self._channel.status_event.wait(_LEAVE_S)  # the exit code comes after the last message
        self.lose(why)

    def _take_all(self, lines: Iterator[wire.Received]) -> None:
        """Take all that the host's process says.

        Raises:
            OSError: The connection broke.
            ValueError: A line is no message.
            HostUnfitError: A line after the first is no frame.
            _UnaskedError: A line is an answer, and no request is open.
        """
        refusal = Refusal(
            HostUnfitError,
            where=f"{self.host.title}: what it says",
            what="a message of this version",
            way_out="update FairShares there, or ask its owner",
        )
        first = next(lines, None)
        if first is not None:
            self._hello.put(Hello.read(first.fields, self._role))
        for line in lines:
            frame = read_frame(line.fields, refusal)
            if isinstance(frame, EndFrame):
                self._party_end = frame.end
            elif self._awaited:
                self._awaited.pop(0).put(frame)
            else:
                raise _UnaskedError

    def lose(self, why: str | None = None) -> None:
        if why is not None:
            self._end_by(HostUnreachableError(f"{self.host.title} went away: {why}."))
        self.over.set()
        self._hello.put(None)
        for answers in list(self._awaited):
            answers.put(None)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # it may be closed already
            self._channel.close()

    def _end_by(self, error: FairSharesError) -> None:
        """Remember the error by which this machine ends the connection, if it is the first one."""
        if self._ending is None:
            self._ending = error


def _error_class(name: str) -> type[FairSharesError]:
    """Return the error class that an agent names, or HostUnfitError for a name that is none."""
    found = vars(errors).get(name)
    if isinstance(found, type) and issubclass(found, FairSharesError):
        return found
    return HostUnfitError


def checked(kind: type[T], answer: JsonValue, host: Host, request: str) -> T:
    """Return a host's answer to a request as a type, or raise HostUnfitError."""
    return as_type(kind, answer, refusal_of(host, request))


def refusal_of(host: Host, request: str) -> Refusal:
    """Return the refusal for a host's answer that does not fit its request."""
    return Refusal(
        HostUnfitError,
        where=f"{host.title}: its answer to {request!r}",
        what="one of this version",
        way_out="update FairShares there, or ask its owner",
    )


def _open(host: Host) -> Ssh:
    """Return an open ssh connection to a host, or raise HostUnreachableError."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # our own messages tell its errors
    options: dict[str, object] = {"banner_timeout": _CONNECT_S, "auth_timeout": _CONNECT_S}
    if host.key_file is not None:  # then no other key is tried
        options["key_filename"] = str(Path(host.key_file).expanduser())
        options["look_for_keys"] = False
        options["allow_agent"] = False
    known = Path(host.known_hosts or "~/.ssh/known_hosts").expanduser()
    ssh = Ssh(
        host.address,
        user=host.ssh_user,
        port=host.ssh_port,
        connect_timeout=int(_CONNECT_S),
        connect_kwargs=options,
    )
    hops = _hops(ssh)
    for hop in hops:
        whose = "its" if hop is ssh else f"the gateway {hop.host}'s"
        why = _why_not_entered(hop, known, whose)
        if why is not None:
            for opened in reversed(hops):
                opened.close()
            raise HostUnreachableError(f"{host.title}: {why}.")
    return ssh


def _hops(ssh: Ssh) -> list[Ssh]:
    """Return the connections on the way to a host, in order; the last one is to the host.

    The connections before it are to gateways, which `ProxyJump` in ~/.ssh/config names. A `ProxyCommand` is
    not among them, as it checks keys by itself.
    """
    hops = [ssh]
    while isinstance(hops[0].gateway, Ssh):
        hops.insert(0, hops[0].gateway)
    return hops


def _why_not_entered(hop: Ssh, known: Path, whose: str) -> str | None:
    """Open one connection on the way to a host.

    Guarantees: no ssh host key is accepted that is not in `known`, neither the host's nor a gateway's.
    Somebody in a gateway's place could keep the way closed, and see who comes, when, and how much is said.
    [test: tests/harness/hosts/test_gateways.py]

    Args:
        hop: The connection, which is not open yet.
        known: The file of the ssh host keys that this user accepts.
        whose: The owner of the key, as a sentence names it: "its" for the host, else the gateway's.

    Returns:
        Why the connection cannot be opened, or None if it is open.
    """
    hop.client.set_missing_host_key_policy(paramiko.RejectPolicy())  # Fabric would take any key
    try:
        with contextlib.suppress(FileNotFoundError):
            hop.client.load_system_host_keys(str(known))
        hop.open()
    except paramiko.BadHostKeyException:
        return (
            f"{whose} ssh host key is not the one in {known}; if it has a new one, correct that file, "
            "if not, somebody is in its place"
        )
    except paramiko.AuthenticationException:
        place = "" if whose == "its" else f" at the gateway {hop.host}"
        return f"ssh let nobody in as {hop.user}{place} with the keys that there are"
    except paramiko.SSHException as error:
        if "not found in known_hosts" in str(error):
            return f"{whose} ssh host key is not in {known}; connect once by ssh and compare it"
        return str(error)
    except (OSError, socket.gaierror) as error:
        place = "it" if whose == "its" else f"the gateway {hop.host}"
        return f"ssh cannot reach {place}: {error.strerror or error}"
    return None


def _command(host: Host, role: Role) -> str:
    """Return the command that starts a role's process on a host, for any login shell there."""
    project = shlex.quote(host.project)
    directory = shlex.quote(host.directory)
    home = shlex.quote(host.mp_spdz_home or "")
    make_environment = "./inv --list >/dev/null" if role is Role.SETUP else "false"
    starts = (
        f"cd {project} 2>/dev/null && test -f harness/hosts/agent.py || exit {_NO_PROJECT}; "
        f"test -f fairshares/harness/hosts/{role}.py || exit {_NO_ROLE}; "
        f"test -x .venv/bin/python || {make_environment} || exit {_NO_ENVIRONMENT}; "
        'export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1; '
        f"exec .venv/bin/python -P -m fairshares.harness.hosts.{role} {directory} {home}"
    )
    return f"sh -c {shlex.quote(starts)}"
