"""This machine's end of the connection to a host's agent; ssh must know the host's key."""

import contextlib
import logging
import math
import queue
import shlex
import socket
from pathlib import Path
from typing import BinaryIO, TypeVar

import paramiko
from fabric import Connection as Ssh

from fairshares.harness import errors
from fairshares.harness.errors import FairSharesError, HostUnfitError, HostUnreachableError
from fairshares.harness.hosts import wire
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import Bye, Message, PartyEnd, answer_type
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.protocols.json_values import JsonObject, JsonValue

T = TypeVar("T")

_CONNECT_S = 10.0
_START_S = 600.0  # for an agent to be there
_SET_UP_S = 3600.0  # likewise for a set-up, which may install packages
_LEAVE_S = 10.0
_SHOWN = 1000  # characters of a host's own messages
_NO_PROJECT, _NO_ENVIRONMENT, _NO_ROLE = 71, 72, 73
_Answer = queue.SimpleQueue[JsonObject | None]  # None: no answer will come


class Connection(wire.Line):
    """A host's agent, started over ssh, or its `setup`, which a key for the agent alone cannot start.

    Guarantees: this machine keeps at most one unasked message, and waits for a limited time.
    [test: tests/harness/hosts/test_connection.py]
    """

    def __init__(self, host: Host, role: str = "agent") -> None:
        self.host, self._role = host, role
        self._ssh = _open(host)
        try:
            self._channel: paramiko.Channel = self._ssh.create_session()
            self._channel.exec_command(_command(host, role))
        except (paramiko.SSHException, OSError) as error:
            self._ssh.close()
            raise HostUnreachableError(f"{host.title}: ssh opened no session: {error}.") from None
        super().__init__(-math.inf)  # a start may take any time
        first = _Answer()
        self._awaited = [first]  # in the order in which they were asked for
        self._why = ""  # reason why this machine ended it
        self._ended: JsonObject | None = None  # how its party ended, as the host says
        self.begin(self._channel.makefile("rb"))
        try:
            with self._patient(_SET_UP_S if role == "setup" else _START_S):
                ready = self._message(first)
            if role not in ready and "agent" in ready:
                raise HostUnfitError(
                    f"{host.title}: this ssh key may start the agent only, which makes no keys. Use a login "
                    "of the host's owner, or have each owner run ./inv hosts.setup --party N --directory DIR "
                    "on its host."
                )
            version = ready.get(role)
            number = version if type(version) is int else 0  # for an agent that states none
            if number != wire.VERSION:
                where = "on this machine" if number > wire.VERSION else f"there, in {host.project}"
                raise HostUnfitError(
                    f"{host.title} has another version of FairShares ({number}, here {wire.VERSION}): "
                    f"update it {where}; both need the same commit."
                )
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> bool:
        """Whether it is over."""
        return self.over.is_set()

    def ask(self, message: Message[T]) -> T:
        """Return the answer to a message.

        Raises HostUnreachableError if the host went away, or gives no answer within the message's time;
        HostUnfitError for an answer of another type; or the agent's own FairSharesError.
        """
        awaited = _Answer()
        with self._patient(message.patience_s):
            with self.writing:
                self._awaited.append(awaited)
                self.write(wire.encode(message))
            if self.lost:
                awaited.put(None)
            answer = self._message(awaited)
        if "error" in answer:
            name, text = checked(tuple[str, str], answer["error"], self.host, message.name())
            raised = vars(errors).get(name)
            known = isinstance(raised, type) and issubclass(raised, FairSharesError)
            raise (raised if known and raised else HostUnfitError)(f"{self.host.title}: {text[:_SHOWN]}")
        return checked(answer_type(type(message)), answer.get("ok"), self.host, message.name())

    def party_end(self) -> PartyEnd | None:
        """Return how the host's party ended, None if it did not yet. Raises HostUnfitError, as `ask`."""
        if self._ended is None:
            return None
        return checked(PartyEnd, self._ended, self.host, "state")

    def forget_end(self) -> None:
        """Forget how an earlier run's party ended."""
        self._ended = None

    def close(self) -> None:
        """End the agent."""
        if not self.lost:
            with self._patient(_LEAVE_S):
                self.send(Bye())
                self._channel.status_event.wait(_LEAVE_S)
        self.lose()
        self._ssh.close()

    def _patient(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return wire.limited(seconds, self.lose, f"it gave no answer within {seconds:g} s")

    def _message(self, awaited: _Answer) -> JsonObject:
        message = awaited.get()
        if message is None:
            raise self._why_gone()
        return message

    def _why_gone(self) -> FairSharesError:
        status, host, said = self._channel.exit_status, self.host, ""
        if self._channel.recv_stderr_ready():
            said = self._channel.recv_stderr(1 << 20).decode(errors="replace").strip()
        last = f": {said.splitlines()[-1][:_SHOWN].rstrip('.')}" if said else ""
        no_environment = (
            f"./inv could not make .venv{last}"
            if self._role == "setup"
            else f"{host.project} has no .venv yet; ./inv hosts.setup makes it"
        )
        faults = {
            _NO_PROJECT: f": FairShares is not in {host.project}; clone it there, or correct `project` in "
            "hosts.toml",
            _NO_ROLE: f" has an older version of FairShares in {host.project}: update it there; both need "
            "the same commit",
            _NO_ENVIRONMENT: f": {no_environment}",
        }
        if status in faults:
            return HostUnfitError(f"{host.title}{faults[status]}.")
        ended = f"its {self._role} ended with exit code {status}" if status >= 0 else "the connection broke"
        return HostUnreachableError(f"{host.title} went away: {self._why or ended + last}.")

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, paramiko.SSHException):  # `_listen` notices that too
            self._channel.sendall(line)

    def _listen(self, incoming: BinaryIO) -> None:
        why = ""
        try:
            with incoming:
                for message in self.messages(incoming):
                    if "ended" not in message.fields:
                        self._awaited.pop(0).put(message.fields)
                        continue
                    ended = message.fields["ended"]
                    if not isinstance(ended, dict):
                        raise ValueError("an end that says nothing")
                    self._ended = ended
        except OSError:
            pass
        except ValueError:
            why = "what it says is no message of FairShares; does anything else print there at login?"
        except IndexError:
            why = "it answers what it was not asked"
        else:
            self._channel.status_event.wait(_LEAVE_S)  # the exit code comes after the last message
        self.lose(why)

    def lose(self, why: str = "") -> None:
        self._why = self._why or why
        self.over.set()
        for answers in list(self._awaited):
            answers.put(None)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # it may be closed already
            self._channel.close()


def checked(kind: type[T], answer: JsonValue, host: Host, request: str) -> T:
    """Return a host's answer to a request as a type, or raise HostUnfitError."""
    return as_type(kind, answer, refusal_of(host, request))


def refusal_of(host: Host, request: str) -> Refusal:
    """Return how a host's answer to a request is refused."""
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
    if host.key_file:
        options |= {"key_filename": str(Path(host.key_file).expanduser()), "look_for_keys": False}
        options["allow_agent"] = False
    known = Path(host.known_hosts or "~/.ssh/known_hosts").expanduser()
    ssh = Ssh(
        host.address,
        user=host.ssh_user or None,
        port=host.ssh_port or None,
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
    """Return the connections on the way to a host, the host's own last.

    Those before are its gateways (`ProxyJump` of ~/.ssh/config). A `ProxyCommand` checks keys by itself.
    """
    hops = [ssh]
    while isinstance(hops[0].gateway, Ssh):
        hops.insert(0, hops[0].gateway)
    return hops


def _why_not_entered(hop: Ssh, known: Path, whose: str) -> str | None:
    """Open one connection on the way to a host; return why it cannot be, or None if it is open.

    Guarantees: no key is taken that is not in `known`, of a gateway neither, as whoever is in a gateway's
    place could keep the way closed, and see who comes, when, and how much is said.
    [test: tests/harness/hosts/test_gateways.py]
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


def _command(host: Host, role: str) -> str:
    project, directory, home = map(shlex.quote, (host.project, host.directory, host.mp_spdz_home))
    make_environment = "./inv --list >/dev/null" if role == "setup" else "false"
    starts = (
        f"cd {project} 2>/dev/null && test -f harness/hosts/agent.py || exit {_NO_PROJECT}; "
        f"test -f harness/hosts/{role}.py || exit {_NO_ROLE}; "
        f"test -x .venv/bin/python || {make_environment} || exit {_NO_ENVIRONMENT}; "
        'export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1; '
        f"exec .venv/bin/python -P -m fairshares.harness.hosts.{role} {directory} {home}"
    )
    return f"sh -c {shlex.quote(starts)}"
