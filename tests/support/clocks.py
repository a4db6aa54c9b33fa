"""A clock that somebody sets while a host is in use; the monotonic clock goes on."""

import time
from datetime import datetime, timedelta, tzinfo
from types import ModuleType

import pytest

from fairshares.harness.engines.parties import certificates
from fairshares.harness.hosts import health, party_run
from fairshares.harness.privacy.ledger import entries

HOUR, YEAR = timedelta(hours=1), timedelta(days=366)
JUMPS = {"an hour ahead": HOUR, "an hour back": -HOUR, "a year ahead": YEAR, "a year back": -YEAR}
_MODULES: tuple[ModuleType, ...] = (certificates, entries, health, party_run)  # that ask for the date


class SetClock:
    """The clock of hosts in this process.

    Attributes:
        ahead: How far it is ahead of the right one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta()
        self._time = time.time
        monkeypatch.setattr(time, "time", self.seconds)
        shown = type("Shown", (_Shown,), {"clock": self})
        for module in _MODULES:
            monkeypatch.setattr(module, "datetime", shown)

    def seconds(self) -> float:
        """Return the seconds since 1970 by this clock."""
        return self._time() + self.ahead.total_seconds()


class _Shown(datetime):
    """Dates and times, of which `now` asks a clock."""

    clock: SetClock

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.clock.ahead
