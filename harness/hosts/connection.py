"""This machine's end of the connection to one host's agent, over ssh.

A host's key has to be known already, as `ssh` knows it: no key is ever taken on trust here.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import queue
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import paramiko
from fabric import Connection as Ssh

from harness import errors
from harness.errors import FairSharesError, HostUnfitError, HostUnreachableError
from harness.hosts import wire
from harness.hosts.inventory import Host
from harness.system.documents import Refusal, as_type

_CONNECT_S = 10.0
_START_S = 60.0
_LEAVE_S = 10.0
_CHUNK = 1 << 20
_NO_PROJECT, NO_ENVIRONMENT, _NO_ROLE = 71, 72, 73
_STARTS = (
    "cd {project} 2>/dev/null && test -f harness/hosts/agent.py || exit {no_project}; "
    "test -f harness/hosts/{role}.py || exit {no_role}; test -x .venv/bin/python || exit {no_environment}; "
    'export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1; '
    "exec .venv/bin/python -P -m harness.hosts.{role} {directory} {home}"
)
_SETS_UP = "cd {project} && ./inv --list >/dev/null"


class NoEnvironmentError(HostUnfitError):
    """The project on a host has no `.venv` yet; setting the host up makes it."""


class Connection:
    """A host's agent, started over ssh: asked one thing at a time, and heard even when not asked.

    Args: role: what is started: the agent, or what sets up the host, for which a key that is for the agent
    alone does not do.
    """

    def __init__(self, host: Host, role: str = "agent") -> None:
        self.host = host
        self._ssh = _open(host)
        try:
            self._channel: paramiko.Channel = self._ssh.create_session()
            self._channel.exec_command(_command(_STARTS, host, role))
        except (paramiko.SSHException, OSError) as error:
            self._ssh.close()
            raise HostUnreachableError(f"{host.title}: ssh opened no session: {error}.") from None
        self._writing = threading.Lock()
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._heard = time.monotonic()
        self._over = threading.Event()
        self.ended: dict[str, Any] | None = None  # how its party ended
        self.lost = False
        for work in (self._listen, self._beat):
            threading.Thread(target=work, daemon=True).start()
        try:
            ready = self._reply(_START_S)
            if role not in ready and "agent" in ready:
                raise HostUnfitError(
                    f"{host.title}: this ssh key may start the agent only, which makes no keys. Use a login "
                    "of the host's owner, or have each owner run ./inv hosts.setup --party N --directory DIR "
                    "on its host."
                )
            self._check_version(ready.get(role))
        except BaseException:
            self.close()
            raise

    def ask(self, request: str, patience_s: float = 60.0, kind: Any = Any, **details: Any) -> Any:
        """Return the agent's answer to a request.

        Args: patience_s: how long to wait for it; kind: what the answer is.
        Raises: HostUnreachableError: it went away; HostUnfitError: it answers something else; what the agent
        raised, with the host's name.
        """
        self._send(wire.encode({"do": request, **details}))
        return self._answer(request, patience_s, kind)

    def put(self, request: str, files: Sequence[Path], patience_s: float) -> None:
        """Send files, each behind a request with its name; hear the answers when all are on their way.

        So many small files take one trip, not one each. Args, raises: as `ask`.
        """
        for file in files:
            header = {"do": request, "name": file.name, "bytes": file.stat().st_size}
            self._send(wire.encode(header), file)
        for _ in files:
            self._answer(request, patience_s)

    def _answer(self, request: str, patience_s: float, kind: Any = Any) -> Any:
        answer = self._reply(patience_s)
        if "error" in answer:
            name, text = checked(tuple[str, str], answer["error"], self.host, request)
            raised = vars(errors).get(name)
            known = isinstance(raised, type) and issubclass(raised, FairSharesError)
            plain = known and raised is not errors.AdoptedError  # which no message alone makes
            raise (raised if plain and raised else HostUnfitError)(f"{self.host.title}: {text}")
        return checked(kind, answer.get("ok"), self.host, request)

    def close(self) -> None:
        """End the agent, and wait for a while until it has ended, which leaves nothing of a run there."""
        if not self.lost:
            with contextlib.suppress(HostUnreachableError):
                self._send(wire.encode({"do": "bye"}))
                self._channel.status_event.wait(_LEAVE_S)
        self._lose()
        self._ssh.close()

    def _check_version(self, version: object) -> None:
        """Raises: HostUnfitError: the agent speaks another version; says which machine is to be updated."""
        number = version if type(version) is int else 0  # of whoever does not say it
        if number != wire.VERSION:
            where = "on this machine" if number > wire.VERSION else f"there, in {self.host.project}"
            raise HostUnfitError(
                f"{self.host.title} has another version of FairShares ({number}, here {wire.VERSION}): "
                f"update it {where}; both need the same commit."
            )

    def _reply(self, seconds: float) -> dict[str, Any]:
        try:
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            self._lose()
            raise HostUnreachableError(f"{self.host.title} gave no answer within {seconds:g} s.") from None
        if reply is None:
            raise self._why_gone()
        return reply

    def _why_gone(self) -> FairSharesError:
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else None
        host = self.host
        if status == _NO_PROJECT:
            return HostUnfitError(
                f"{host.title}: FairShares is not in {host.project}; clone it there, or correct "
                "`project` in hosts.toml."
            )
        if status == _NO_ROLE:
            return HostUnfitError(
                f"{host.title} has an older version of FairShares in {host.project}: update it there; both "
                "need the same commit."
            )
        if status == NO_ENVIRONMENT:
            return NoEnvironmentError(
                f"{host.title}: {host.project} has no .venv yet; ./inv hosts.setup makes it."
            )
        how = "the connection broke" if status is None else f"its agent ended with exit code {status}"
        return HostUnreachableError(f"{host.title} went away: {how}.")

    def _send(self, line: bytes, body: Path | None = None) -> None:
        try:
            with self._writing:
                self._channel.sendall(line)
                if body is not None:
                    with body.open("rb") as file:
                        while chunk := file.read(_CHUNK):
                            self._channel.sendall(chunk)
        except (OSError, paramiko.SSHException):
            if self._replies.empty():
                raise self._why_gone() from None

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._channel.makefile("rb") as incoming:
            while (line := wire.read_line(incoming)) is not None:
                self._heard = time.monotonic()
                message = wire.decode(line)
                if message is not None and "ended" in message:
                    self.ended = message["ended"]
                elif message is not None:
                    self._replies.put(message)
        self._channel.status_event.wait(1.0)  # comes after the end of what it said
        self._lose()

    def _beat(self) -> None:
        while not self._over.wait(wire.BEAT_S):
            with contextlib.suppress(HostUnreachableError, HostUnfitError):
                self._send(b"\n")
            if time.monotonic() - self._heard > wire.SILENCE_S:
                self._lose()
                return

    def _lose(self) -> None:
        self.lost = True
        self._over.set()
        self._replies.put(None)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # it may be closed already
            self._channel.close()


def checked(kind: Any, answer: Any, host: Host, request: str) -> Any:
    """Return what a host answered as what it has to be. Raises: HostUnfitError: it is something else."""
    where, way_out = f"{host.title}: its answer to {request!r}", "update FairShares there, or ask its owner"
    return as_type(kind, answer, Refusal(HostUnfitError, where, "one of this version", way_out))


def make_environment(host: Host) -> None:
    """Have the project on a host make its `.venv`, as `./inv` does on first use.

    Raises: HostUnfitError: it could not; with the last line that it said.
    """
    with _open(host) as ssh:
        done = ssh.run(_command(_SETS_UP, host), hide=True, warn=True, in_stream=False)
    if not done.ok:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise HostUnfitError(f"{host.title}: ./inv could not make .venv: {last}")


def _open(host: Host) -> Ssh:
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # errors are ours to tell
    options: dict[str, Any] = {"banner_timeout": _CONNECT_S, "auth_timeout": _CONNECT_S}
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
    ssh.client.set_missing_host_key_policy(paramiko.RejectPolicy())  # Fabric would take any key
    try:
        with contextlib.suppress(FileNotFoundError):
            ssh.client.load_system_host_keys(str(known))
        ssh.open()
    except paramiko.BadHostKeyException:
        why = (
            f"its ssh host key is not the one in {known}; if it has a new one, correct that file, "
            "if not, somebody is in its place"
        )
    except paramiko.AuthenticationException:
        why = f"ssh let nobody in as {host.ssh_user or getpass.getuser()} with the keys that there are"
    except paramiko.SSHException as error:
        unknown = "not found in known_hosts" in str(error)
        why = (
            f"its ssh host key is not in {known}; connect once by ssh and compare it"
            if unknown
            else str(error)
        )
    except (OSError, socket.gaierror) as error:
        why = f"ssh cannot reach it: {error.strerror or error}"
    else:
        return ssh
    ssh.close()
    raise HostUnreachableError(f"{host.title}: {why}.")


def _command(text: str, host: Host, role: str = "") -> str:
    """Return a command for the host's shell, whichever that is."""
    filled = text.format(
        project=shlex.quote(host.project),
        directory=shlex.quote(host.directory),
        home=shlex.quote(host.mp_spdz_home),
        role=role,
        no_role=_NO_ROLE,
        no_project=_NO_PROJECT,
        no_environment=NO_ENVIRONMENT,
    )
    return f"sh -c {shlex.quote(filled)}"
