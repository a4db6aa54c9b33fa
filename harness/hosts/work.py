"""All requests of one connection to an agent, and who may make them."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.errors import HostUnfitError
from harness.hosts import local_host, wire
from harness.hosts.guard import Guard, once
from harness.hosts.local_host import LocalHost
from harness.hosts.party_run import BenchmarkRun, PartyRun, Preparation, ReleaseRun
from harness.hosts.policy import FILE, read_policy
from harness.hosts.trials import Trial


class Work(wire.Answers):
    """One host's work for one connection; see `LocalHost`."""

    REQUESTS = ("propose", "preprocess", "benchmark", "forget", "collect", "clean")

    def __init__(self, directory: Path, stack: ExitStack, coordinator: str = "") -> None:
        self.host = LocalHost(directory, stack, coordinator)
        self._run: PartyRun | None = None

    @property
    def run(self) -> Any:
        """The connection's `PartyRun`; HostUnfitError if none was asked for."""
        if self._run is None:
            raise HostUnfitError("It was asked for no run yet.")
        return self._run

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        answering: list[Any] = [self, self.host]
        answering += [self._run] if self._run is not None else []
        answering += [self._run.uploads] if isinstance(self._run, ReleaseRun) else []
        return {name: getattr(one, name) for one in answering for name in one.REQUESTS}

    @property
    def is_running(self) -> bool:
        return self._run is not None and self._run.is_running

    @property
    def longest(self) -> int:
        """Most bytes of a request: few until the owner's policy has accepted a run."""
        return wire.SHORT if self._run is None else wire.LONGEST

    def ended(self) -> dict[str, Any] | None:
        return self._run.ended() if self._run is not None else None

    def admit(self, request: str) -> None:
        """Raise PolicyError unless this coordinator may ask anything.

        A host without a policy says by `check` that it has none, and nothing else.
        """
        if request != "check" or os.path.lexists(self.host.directory / FILE):
            read_policy(self.host.directory).check_coordinator(self.host.coordinator)

    def propose(self, asked: dict[str, str]) -> None:
        """Take a release for this party; later requests are for it.

        No other connection takes part in a run meanwhile: what this one signs is of one run alone. Raises
        PolicyError, OptionError, UnsupportedError, or as `LocalHost.listen`.
        """
        self.host.take_turn()
        once(self._run, "taken part in another run")
        self._run = ReleaseRun(self.host, Guard(self.host.directory, asked))

    def preprocess(self, asked: dict[str, str], domain: dict[str, Any]) -> None:
        """Take a run that makes the noise of a later release, in place of the last such run.

        Raises as `propose`.
        """
        self.host.take_turn()
        self._replace(Preparation)
        self._run = Preparation(self.host, Guard(self.host.directory, asked), domain)

    def benchmark(self, party: int, trial: Trial) -> None:
        """Take a run on made-up records, in place of the last such run.

        Guarantees: no share is in it, neither of this host's own nor of those that coordinators send: only
        `aggregate` reads any, after `propose`, which no connection with a benchmark run has.
        [test: tests/harness/hosts/test_preparation.py]

        Raises PolicyError if the owner allows none, or as `Trial.job` and `LocalHost.listen`.
        """
        read_policy(self.host.directory).check_benchmark()
        self.host.take_turn()
        self._replace(BenchmarkRun)
        self._run = BenchmarkRun(self.host, party, trial)

    def _replace(self, kind: type[PartyRun]) -> None:
        once(self._run is not None and not isinstance(self._run, kind), "taken part in another run")
        if self._run is not None:
            self._run.close()

    def forget(self, run: local_host.RunName) -> None:
        """Remove a run's opened values, which have been read."""
        local_host.place_of(self.host.directory, run).unlink(missing_ok=True)

    def collect(self) -> list[dict[str, Any]]:
        """Return the host's signed statements of runs whose result nobody has read."""
        return [asdict(signed) for signed in local_host.signed_runs(self.host.directory)]

    def clean(self) -> local_host.Removed:
        """End processes of other connections, remove what they left; return the numbers."""
        return local_host.clean(self.host.directory, self._run.scratch if self._run is not None else None)
