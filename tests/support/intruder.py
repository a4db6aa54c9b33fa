"""What hostile code in a party's place tries: it is run as a program or a virtual machine, not imported.

It is given `ATTEMPTS`, pairs of a kind and a target, and prints `OUT <kind> <target>: <answer>` for each.
A target `parent` is the process that started the party: its host's agent.
"""

# ruff: noqa: F821

import ctypes
import fcntl
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

ATTEMPTS: list[tuple[str, str]]
libc = ctypes.CDLL(None, use_errno=True)


def process(target: str) -> int:
    return os.getppid() if target == "parent" else int(target)


def checked(answer: int) -> None:
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")


def read(target: str) -> None:
    with Path(target).open("rb") as file:
        file.read(1)


def write(target: str) -> None:
    with Path(target).open("ab"):
        pass


def make(target: str) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def connect(family: int, address: str | tuple[str, int], kind: int = socket.SOCK_STREAM) -> None:
    with socket.socket(family, kind) as one:
        one.settimeout(5)
        one.connect(address)


def fast_open(target: str) -> None:
    with socket.socket() as one:
        one.sendto(b"x", 0x20000000, ("127.0.0.1", int(target)))


def multipath(target: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as one:
        one.settimeout(5)
        one.connect(("127.0.0.1", int(target)))


def listen(target: str) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", int(target)))


def attach(target: str) -> None:
    checked(libc.ptrace(0x4206, process(target), 0, 0))
    libc.ptrace(17, process(target), 0, 0)


def own_signals(target: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        fcntl.fcntl(left, 8, process(target))


KINDS: dict[str, Callable[[str], object]] = {
    "read": read,
    "list": os.listdir,
    "write": write,
    "make": make,
    "remove": os.unlink,
    "move": lambda target: Path(target).rename(f"{target}-moved"),
    "take": lambda target: os.link(target, "taken"),
    "truncate": lambda target: os.truncate(target, Path(target).stat().st_size),
    "chmod": lambda target: Path(target).chmod(0o600),
    "touch": os.utime,
    "environ": lambda target: read(f"/proc/{process(target)}/environ"),
    "memory": lambda target: read(f"/proc/{process(target)}/maps"),
    "descriptors": lambda target: [*Path(f"/proc/{process(target)}/fd").iterdir()],
    "attach": attach,
    "signal": lambda target: os.kill(process(target), 0),
    "signals-of-a-socket": own_signals,
    "limit": lambda target: resource.prlimit(process(target), resource.RLIMIT_CPU),
    "connect": lambda target: connect(socket.AF_INET, ("127.0.0.1", int(target))),
    "fast-open": fast_open,
    "multipath": multipath,
    "listen": listen,
    "datagram": lambda target: connect(socket.AF_INET, ("127.0.0.1", int(target)), socket.SOCK_DGRAM),
    "abstract": lambda target: connect(socket.AF_UNIX, "\0" + target),
    "unix": lambda target: connect(socket.AF_UNIX, target),
}
if Path("Player-Data").is_dir() and not Path("Player-Data/P0.key").exists():
    time.sleep(600)  # another party, which the first one looks for
for kind, target in ATTEMPTS:
    try:
        KINDS[kind](target)
        answer = "done"
    except OSError as error:
        answer = f"refused {error.errno}"
    print(f"OUT {kind} {target}: {answer}", flush=True)
sys.exit(3)
