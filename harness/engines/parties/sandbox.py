"""Shuts a party's process off from its owner's other files, processes and programs (Linux).

Three means of the kernel work together, and none needs a privilege or a package. Landlock denies files, other
processes' memory, and TCP ports. A filter of system calls (seccomp) denies what Landlock leaves out, or has
only in later kernels. Root gives up its capabilities. All three hold for this process, for the programs that
it becomes and for its children, and cannot be taken back.

Decision: docs/decisions/0070-sandbox.md.
"""

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fairshares.harness.errors import SandboxError

_PROJECT = Path(__file__).resolve().parents[3]
# Directories of the project's code. An owner's own directories may be beside them.
_CODE = ("fairshares", "harness", "protocols", "Programs")

# Files that programs of the system read. No directory of /etc is here, as other programs keep secrets there.
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies/back-ends/opensslcnf.config",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)


class Protection(Enum):
    """An action that a party's process cannot take; the value completes "a party's process can"."""

    FILES = "read and write its owner's other files"
    TRACING = "read its owner's other processes"
    TRUNCATING = "empty its owner's other files"
    ATTRIBUTES = "change modes, owners and times of its owner's other files"
    SIGNALS = "send signals to its owner's other processes"
    SOCKETS = "talk to its owner's other programs by Unix sockets, UDP and shared memory"
    PORTS = "connect to any TCP port, and listen at any"


@dataclass(frozen=True)
class SandboxReach:
    """Files that a party's process may use besides the system's and Python's own files.

    Addresses cannot be limited: a port of `calls` is allowed at every address.

    Attributes:
        directory: The run's own, where alone it may write.
        reads: Files and directories for reading, with all that is below them.
        listens: TCP ports of its own.
        calls: TCP ports to connect to.
    """

    directory: Path
    reads: tuple[Path, ...]
    listens: tuple[int, ...]
    calls: tuple[int, ...]


# Landlock, from linux/landlock.h. Its numbers of system calls are the same on all machines of this module.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_ASK_VERSION = 1
# Kinds of rules: for a file or a directory and all below it, and for a TCP port.
_BENEATH = 1
_PORT = 2
# Rights to files.
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11
_TRUNCATE = 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE  # rights that a rule for a file may have
# Rights to ports.
_BIND_TCP = 1 << 0
_CONNECT_TCP = 1 << 1
_SCOPED = 1 << 0 | 1 << 1  # abstract Unix sockets, and signals
# Rights to files that are known from each version on: 1 has the first 13, 2 moving between directories, 3
# truncating, 5 control of devices.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
# The versions that know truncating, ports, and scopes.
_TRUNCATING_FROM = 3
_PORTS_FROM = 4
_SCOPES_FROM = 6

# prctl and seccomp, from linux/prctl.h, linux/seccomp.h and linux/filter.h.
_NO_NEW_PRIVILEGES = 38
_GET_SECCOMP = 21
_SET_SECCOMP = 22
_FILTER = 2
# Answers of a filter.
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | 1  # refuses with the error EPERM
# Instructions of a filter.
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_MASK = 0x54
_RETURN = 0x06
# Offsets in the data of a call. Arguments are at `_argument_at`.
_NUMBER_AT = 0
_MACHINE_AT = 4
_FIRST_X32 = 0x40000000  # numbers of another calling convention of x86-64

# System calls: the number on x86-64 (None where there is none), and on 64-bit ARM.
_X86_64 = "x86_64"
_ARM_64 = "aarch64"
_MACHINES = {_X86_64: 0xC000003E, _ARM_64: 0xC00000B7}
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # out of the group that the host's agent ends
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # attributes of files, which Landlock does not deny, and truncating by name, which it denies from 3 on
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # names of files, as others use them
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    # memory and keys that processes of one user share
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # ways around a filter, and large parts of the kernel that no engine needs
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
# System calls that some arguments make harmful; `_refusals` and `_filter_of_signals` say which.
CHECKED: dict[str, tuple[int | None, int | None]] = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
}
_KIND_OF_SOCKET = 0xF  # the part of a type that is no flag
_FAST_OPEN = 0x20000000  # a flag of messages that connects without asking Landlock
_OWNERS_OF_SIGNALS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: who gets which signal of a descriptor
_OWNERS_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP

_CAPABILITIES_VERSION = 0x20080522
_CAPGET = {_X86_64: 125, _ARM_64: 90}
_CAPSET = {_X86_64: 126, _ARM_64: 91}
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, as root's files may be below another user's directory, and
# CAP_NET_BIND_SERVICE.
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2 | 1 << 10


def landlock_version() -> int:
    """Return the version of Landlock that this kernel offers to this process, 0 if none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, version)


def has_filter() -> bool:
    """Return whether system calls can be filtered here, on a machine that this module knows."""
    known = sys.platform == "linux" and os.uname().machine in _MACHINES
    return known and _libc().prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0


def missing() -> tuple[Protection, ...]:
    """Return the protections that this machine cannot give; none where it gives all.

    Guarantees: all others hold in a party's process.  [test: tests/harness/engines/test_sandbox.py]
    """
    version = landlock_version()
    filtered = has_filter()
    lacks = {
        Protection.FILES: version == 0,
        Protection.TRACING: version == 0,
        Protection.TRUNCATING: version < _TRUNCATING_FROM and not filtered,
        Protection.ATTRIBUTES: not filtered,
        Protection.SIGNALS: version < _SCOPES_FROM and not filtered,
        Protection.SOCKETS: not filtered,
        Protection.PORTS: version < _PORTS_FROM or not filtered,
    }
    return tuple(protection for protection, is_missing in lacks.items() if is_missing)


def confine(reach: SandboxReach) -> None:
    """Restrict this process, for good, to what it may reach, as far as this machine can.

    Guarantees: afterwards the process can do nothing beyond its reach but what `missing()` names.
    [test: tests/harness/engines/test_sandbox.py]

    Raises SandboxError if a protection that the machine offers fails, or if a thread runs already, which
    would go on without restriction.
    """
    if sys.platform != "linux":
        return
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise SandboxError("A thread of this party's process runs before the process is restricted.")
    try:
        _call("prctl", _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _drop_capabilities()
        version = landlock_version()
        if version:
            _restrict_files_and_ports(version, reach)
        if has_filter():
            _install(_general_filter())
    except OSError as error:
        raise SandboxError(
            f"This party's process could not be restricted to its run's files: {error.strerror} "
            f"({error.filename}); a container or another program may forbid it."
        ) from None


def signal_only(*processes: int) -> None:
    """Let this process, and its children from now on, send signals to these processes alone.

    Call `confine` before. Landlock denies signals from version 6 on; this filter denies them with every
    version.
    """
    if sys.platform == "linux" and has_filter():
        _install(_filter_of_signals(processes))


def files_of_python() -> tuple[Path, ...]:
    """Return the places of Python, of installed packages and of this project's code.

    The project's root is not among them, unless packages are installed there.
    """
    imported = {Path(entry) for entry in sys.path if entry} - {Path.cwd()}
    if next(_PROJECT.glob("*.dist-info"), None) is None:  # a clone, in which owners may keep their own files
        imported -= {_PROJECT}
    libraries = {Path(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)}
    code = {_PROJECT / name for name in _CODE}
    return tuple(sorted(imported | libraries | code))


def _drop_capabilities() -> None:
    """Give up root's capabilities, except for `_KEPT_CAPABILITIES`."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        return
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    _call("capget", _libc().syscall(_CAPGET[machine], ctypes.byref(header), ctypes.byref(sets)))
    kept = (ctypes.c_uint32 * 6)(sets[0] & _KEPT_CAPABILITIES, sets[1] & _KEPT_CAPABILITIES, 0, 0, 0, 0)
    _call("capset", _libc().syscall(_CAPSET[machine], ctypes.byref(header), ctypes.byref(kept)))


def _restrict_files_and_ports(version: int, reach: SandboxReach) -> None:
    """Restrict this process by Landlock of this version; OSError if that fails."""
    rights = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    fields = [rights]
    if version >= _PORTS_FROM:
        fields.append(_BIND_TCP | _CONNECT_TCP)
    if version >= _SCOPES_FROM:
        fields.append(_SCOPED)
    ruleset = _created(struct.pack(f"={len(fields)}Q", *fields))
    try:
        reading = _EXECUTE | _READ_FILE | _READ_DIR
        for readable in (map(Path, _SYSTEM), files_of_python(), reach.reads):
            for path in readable:
                _allow_beneath(ruleset, path, reading & rights)
        _allow_beneath(ruleset, Path(os.devnull), (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
        _allow_beneath(ruleset, reach.directory, rights & ~_EXECUTE & ~_MAKE_DEVICES)
        if version >= _PORTS_FROM:
            for port in {*reach.listens, *reach.calls}:
                _allow_port(ruleset, port, listens=port in reach.listens, calls=port in reach.calls)
        restricted = _libc().syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
        _call("landlock_restrict_self", restricted)
    finally:
        os.close(ruleset)


def _created(attributes: bytes) -> int:
    """Return the descriptor of a new set of rules."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    size = ctypes.c_size_t(len(attributes))
    ruleset: int = _libc().syscall(_CREATE_RULESET, buffer, size, ctypes.c_uint32(0))
    _call("landlock_create_ruleset", ruleset)
    return ruleset


def _allow_beneath(ruleset: int, path: Path, rights: int) -> None:
    """Allow rights to a file, or to a directory and all below it, if it is there."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not on this system
        return
    try:
        allowed = rights if Path(f"/proc/self/fd/{place}").is_dir() else rights & _OF_FILES
        _add_rule(ruleset, _BENEATH, struct.pack("=Qi", allowed, place))
    finally:
        os.close(place)


def _allow_port(ruleset: int, port: int, *, listens: bool, calls: bool) -> None:
    rights = 0
    if listens:
        rights |= _BIND_TCP
    if calls:
        rights |= _CONNECT_TCP
    _add_rule(ruleset, _PORT, struct.pack("=QQ", rights, port))


def _add_rule(ruleset: int, kind: int, rule: bytes) -> None:
    buffer = ctypes.create_string_buffer(rule, len(rule))
    added = _libc().syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(kind), buffer, ctypes.c_uint32(0))
    _call("landlock_add_rule", added)


def _general_filter() -> bytes:
    """Return the filter that refuses calls of `REFUSED`, and calls of `CHECKED` with harmful arguments."""
    rules: list[bytes] = []
    for name, refusals in _refusals().items():
        rules += _rule(CHECKED[name], refusals, _returning(_ALLOW))
    for numbers in REFUSED.values():
        rules += _rule(numbers, [], _returning(_REFUSE))
    return _filter_of(rules)


def _refusals() -> dict[str, list[bytes]]:
    """Return for each call the instructions that refuse its harmful arguments.

    Sockets are TCP over IPv4 or IPv6, as Landlock knows ports of these alone. Pairs of sockets are streams,
    which cannot be connected anew.
    """
    # Places of the arguments of `socket` and `socketpair`.
    family = 0
    kind = 1
    protocol = 2
    sockets = _refuse_unless(family, (socket.AF_INET, socket.AF_INET6))
    sockets += _refuse_unless(kind, (socket.SOCK_STREAM,), _KIND_OF_SOCKET)
    sockets += _refuse_unless(protocol, (0, socket.IPPROTO_TCP))
    return {
        "socket": sockets,
        "socketpair": _refuse_unless(kind, (socket.SOCK_STREAM,), _KIND_OF_SOCKET),
        "sendto": _refuse_bits(3, _FAST_OPEN),
        "sendmsg": _refuse_bits(2, _FAST_OPEN),
        "sendmmsg": _refuse_bits(3, _FAST_OPEN),
        "prlimit64": _refuse_unless(0, (0,)),  # 0 is the process itself
        "fcntl": _refuse_if(1, _OWNERS_OF_SIGNALS),
        "ioctl": _refuse_if(1, _OWNERS_BY_IOCTL),
    }


def _filter_of_signals(processes: Collection[int]) -> bytes:
    """Return the filter that refuses signals to other processes."""
    refusals = _refuse_unless(0, processes)
    rules: list[bytes] = []
    for name in ("kill", "tgkill"):
        rules += _rule(CHECKED[name], refusals, _returning(_ALLOW))
    return _filter_of(rules)


def _rule(numbers: tuple[int | None, int | None], refusals: list[bytes], otherwise: bytes) -> list[bytes]:
    """Return instructions for one system call: its refusals, then what answers it otherwise.

    For other calls these instructions are skipped, and the number of the call stays loaded.
    """
    on_x86_64, on_arm_64 = numbers
    number = on_x86_64 if os.uname().machine == _X86_64 else on_arm_64
    if number is None:
        return []
    return [_jump(_EQUAL, number, 0, len(refusals) + 1), *refusals, otherwise]


def _refuse_unless(argument: int, values: Collection[int], mask: int | None = None) -> list[bytes]:
    """Return instructions that refuse a call unless an argument, or its masked part, is among the values."""
    instructions = [_load(_argument_at(argument))]
    if mask is not None:
        instructions.append(_instruction(_MASK, mask))
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        instructions.append(_jump(_EQUAL, value, left, 0))  # past the refusal, which comes after all values
    instructions.append(_returning(_REFUSE))
    return instructions


def _refuse_if(argument: int, values: Iterable[int]) -> list[bytes]:
    """Return instructions that refuse a call if an argument is one of these values."""
    instructions = [_load(_argument_at(argument))]
    for value in values:
        instructions += [_jump(_EQUAL, value, 0, 1), _returning(_REFUSE)]
    return instructions


def _refuse_bits(argument: int, bits: int) -> list[bytes]:
    """Return instructions that refuse a call if an argument has any of these bits."""
    return [_load(_argument_at(argument)), _jump(_ANY_BIT, bits, 0, 1), _returning(_REFUSE)]


def _filter_of(rules: Iterable[bytes]) -> bytes:
    """Return a filter that allows what no rule refuses; a rule finds the number of the call loaded."""
    before_rules = b"".join(
        [
            _load(_MACHINE_AT),
            _jump(_EQUAL, _MACHINES[os.uname().machine], 1, 0),
            _returning(_REFUSE),  # a call of another architecture, whose numbers differ
            _load(_NUMBER_AT),
            _jump(_AT_LEAST, _FIRST_X32, 0, 1),
            _returning(_REFUSE),  # a call by another convention
        ]
    )
    return before_rules + b"".join(rules) + _returning(_ALLOW)


def _argument_at(argument: int) -> int:
    return 16 + 8 * argument  # the place of its lower half


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _returning(value: int) -> bytes:
    return _instruction(_RETURN, value)


def _instruction(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_so: int, if_not: int) -> bytes:
    """Return a comparison with what is loaded, and how many instructions either outcome skips."""
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _install(program: bytes) -> None:
    """Have the kernel filter this process's system calls by a program; OSError if it does not."""
    size = len(_returning(_ALLOW))
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // size, ctypes.addressof(instructions))
    description = ctypes.create_string_buffer(described, len(described))
    _call("seccomp", _libc().prctl(_SET_SECCOMP, _FILTER, description, 0, 0))


def _call(name: str, answer: int) -> None:
    """Raise OSError if a system call answered with an error."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
