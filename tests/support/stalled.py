"""A mount that hangs: whoever looks at anything in it waits until it is gone."""

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DEVICE = Path("/dev/fuse")
_DETACH = 2  # flag of umount2
_INIT = 26  # the first request, which alone is answered
_REQUEST = struct.Struct("<IIQQIIII")  # length, operation, number, node, user, group, process, padding
_ANSWER = struct.Struct("<IiQ")  # length, error, number
_ANSWER_TO_INIT = struct.Struct("<IIIIHHIIHHI28x")
_MOST_BYTES = 1 << 20  # of a request


class Stalled:
    """The mount."""

    def __init__(self, device: int) -> None:
        self._device = device

    def wait_until_asked(self, seconds: float = 60) -> None:
        """Return once a program waits for the mount."""
        ready, _, _ = select.select([self._device], [], [], seconds)
        assert ready, "nothing has asked for what is in the mount"


@contextmanager
def stalled(place: Path) -> Iterator[Stalled]:
    """Mount over a directory what never answers; programs that wait for it fail after the block."""
    if os.geteuid() or not os.access(_DEVICE, os.R_OK | os.W_OK):
        pytest.skip("it takes root and /dev/fuse")
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        if libc.mount(b"stalled", os.fsencode(place), b"fuse", 0, options.encode()):
            pytest.skip(f"mounting is not allowed: {os.strerror(ctypes.get_errno())}")
        try:
            request = os.read(device, _MOST_BYTES)
            _, operation, number, *_ = _REQUEST.unpack_from(request)
            assert operation == _INIT
            body = _ANSWER_TO_INIT.pack(7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
            os.write(device, _ANSWER.pack(_ANSWER.size + len(body), 0, number) + body)
            yield Stalled(device)
        finally:
            libc.umount2(os.fsencode(place), _DETACH)
    finally:
        os.close(device)  # which ends the waits
