"""Stand-ins for what a connection of the embedded engine knows: MPyC's runtime, its loop and a transport."""

import asyncio
from types import SimpleNamespace
from typing import Any

KEY_BYTES = 16


class Future:
    """A result that comes later."""

    def __init__(self) -> None:
        self._result: Any = None
        self._done = False

    def set_result(self, result: Any) -> None:
        """Set it, once."""
        assert not self._done
        self._result, self._done = result, True

    def done(self) -> bool:
        """Return whether it is there."""
        return self._done

    def result(self) -> Any:
        """Return it."""
        return self._result


class Loop:
    """An event loop that only counts how often it was stopped."""

    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        """Note it."""
        self.stops += 1

    def create_future(self) -> Future:
        """Return a result that comes later."""
        return Future()


class Runtime:
    """MPyC's runtime of one of three parties: which keys it exchanges, and with whom it is connected."""

    def __init__(self, pid: int, loop: Any) -> None:
        self.pid = pid
        self._loop = loop
        self.parties = [SimpleNamespace(pid=party, protocol=None) for party in range(3)]
        self.keys: dict[int, bytes] = {}

    def set_protocol(self, peer: int, protocol: Any) -> None:
        """Note a connection."""
        self.parties[peer].protocol = protocol

    def unset_protocol(self, peer: int) -> None:
        """Note its end."""
        self.parties[peer].protocol = None

    def _prss_keys_to_peer(self, peer: int) -> list[bytes]:
        return [b"k" * KEY_BYTES]

    def _prss_keys_from_peer(self, peer: int, data: bytes | None = None) -> int:
        if data is not None:
            self.keys[peer] = data
        return KEY_BYTES


class Transport(asyncio.Transport):
    """A connection whose peer showed a certificate."""

    def __init__(self, certificate: bytes | None) -> None:
        super().__init__()
        self._certificate = certificate
        self.written = b""
        self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the TLS object."""
        return SimpleNamespace(getpeercert=lambda binary_form: self._certificate)

    def write(self, data: Any) -> None:
        """Keep what is sent."""
        self.written += bytes(data)

    def writelines(self, parts: Any) -> None:
        """Keep what is sent."""
        self.written += b"".join(parts)

    def abort(self) -> None:
        """Note it."""
        self.aborted = True
