"""The real engine: a build of MP-SPDZ that the user has made, found, checked and run."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.engines.base import (
    LOOPBACK,
    Address,
    Engine,
    EngineResult,
    Job,
    Prepared,
    Progress,
    local,
    no_charge,
)
from harness.engines.mpspdz.compiler import compile_program
from harness.engines.network.links import links_between
from harness.engines.network.profiles import Network
from harness.engines.output_parser import PartyLog, parse_outputs, peaks_of
from harness.engines.parties.supervisor import free_ports, run_parties
from harness.engines.program_hash import program_hash
from harness.errors import OutputError, UnsupportedError
from harness.security_models import Model
from protocols.spec import ProtocolSpec

DOCUMENTATION = "https://mp-spdz.readthedocs.io"

# A race in the MAC check, which active security rests on, was fixed on 11 May 2026, after 0.4.2.
_FIX_COMMIT = "7bf16a74e10bb07850b762797e603a8eca8785c2"
_FIX_TIME = 1778496164
_FIRST_FIXED_RELEASE = (0, 4, 3)

_USUAL_BATCH = 1000  # of machines that use oblivious transfer, without -b

_TIME = re.compile(r"^Time = ([\d.e+-]+) seconds")
_SENT = re.compile(r"^Data sent = ([\d.e+-]+) MB in ~(\d+) rounds")
_CLIENTS = re.compile(r"Clients sent = (\d+) bytes, received = (\d+) bytes")
_DABITS = re.compile(r"^ *(\d+) integer dabits$", re.MULTILINE)
_PHASES = re.compile(r"^Spent ([\d.e+-]+) seconds .*?on the online phase and ([\d.e+-]+) seconds")


@dataclass(frozen=True)
class Installation:
    """A directory with MP-SPDZ in it. `commit` is "unknown" outside a git checkout."""

    home: Path
    commit: str
    release: str
    fixed: bool

    @property
    def version(self) -> str:
        return f"MP-SPDZ {self.release} ({self.commit[:12]})"

    @property
    def full_version(self) -> str:
        return f"{self.release} {self.commit}"


class MpSpdzEngine(Engine):
    """Compiles with MP-SPDZ's compiler and starts its virtual machines, one process per party."""

    name = "mp-spdz"

    def version(self) -> str | None:
        found = find_installation()
        return found.version if isinstance(found, Installation) else None

    def availability(self, model: Model) -> str | None:
        found = find_installation()
        if isinstance(found, str):
            return found
        if not found.fixed:
            return (
                f"{found.version} at {found.home} is older than the fix of 11 May 2026 to its MAC check; "
                f"update it, see {DOCUMENTATION}."
            )
        assert model.virtual_machine is not None
        if not os.access(found.home / model.virtual_machine, os.X_OK):
            return (
                f"MP-SPDZ at {found.home} has no {model.virtual_machine}; "
                f"its documentation says how to build it, see {DOCUMENTATION}."
            )
        return None

    def common_name(self, party: int) -> str:
        return f"P{party}"

    @contextmanager
    def prepared(self, job: Job, model: Model) -> Iterator[Prepared]:
        reason = self.availability(model)
        found = find_installation()
        if reason is not None or isinstance(found, str):
            raise UnsupportedError(reason or str(found))
        job.check_parties(model)
        options = compile_options(job.spec, model)
        bytecode = compile_program(job, found.home, found.full_version, options)
        batch = job.batch(model)
        if model.virtual_machine == "spdz2k-party.x":
            batch = batch_that_works(batch or _USUAL_BATCH, bytecode.estimate)
        # -OF . prints opened values at every party, so that their agreement can be checked.
        words = [str(found.home / str(model.virtual_machine)), *(["-N", "2"] if model.parties == 2 else [])]
        words += [
            "-ip",
            "hosts",
            "-v",
            "-OF",
            ".",
            *model.run_options,
            *(["-b", str(batch)] if batch else []),
        ]
        with bytecode.in_use():
            yield Prepared(
                job,
                model,
                found.version,
                bytecode.program_hash,
                options,
                bytecode.compile_s,
                (*words, bytecode.name),
                {"Programs": str(bytecode.programs)},
            )

    def config(self, prepared: Prepared, party: int, addresses: Sequence[Address]) -> dict[str, Any]:
        job, model = prepared.job, prepared.model
        machine, *words = prepared.command
        return {
            "party": party,
            "common_names": [self.common_name(j) for j in range(model.parties)],
            "engine": self.name,
            "fair_bits": job.fair_bits,
            "argv": [machine, "-p", str(party), *words],
            "files": {"hosts": "".join(f"{host}:{port}\n" for host, port in addresses)},
            "links": dict(prepared.links),
        }

    def program_hash(self, job: Job, model: Model) -> str:
        job.check_parties(model)
        found = find_installation()
        version = found.full_version if isinstance(found, Installation) else ""
        return program_hash(job, (*compile_options(job.spec, model), version))

    def run(
        self,
        job: Job,
        model: Model,
        work: Path,
        timeout_s: float,
        progress: Progress,
        starting: Callable[[], None] = no_charge,
        network: Network | None = None,
    ) -> EngineResult:
        started = time.monotonic()
        progress("compile")
        with self.prepared(job, model) as prepared, free_ports(3 * model.parties) as ports:
            progress("run")
            fronts: list[dict[str, Any]] = [{} for _ in range(model.parties)]
            if job.clients is not None:
                pairs = zip(ports[model.parties :: 2], ports[model.parties + 1 :: 2], strict=True)
                fronts = [{"front": job.clients.front(LOOPBACK, *pair, timeout_s)} for pair in pairs]
            with links_between(ports[: model.parties], network) as links:
                configs = [
                    {**self.config(prepared, i, local(links.ports[i])), **front}
                    for i, front in enumerate(fronts)
                ]
                logs = run_parties(job, configs, work, timeout_s, starting)
        return replace(self.result(prepared, logs, time.monotonic() - started), network=links.measured)

    def result(self, prepared: Prepared, logs: Sequence[PartyLog], wall_s: float) -> EngineResult:
        job, model = prepared.job, prepared.model
        costs = [_costs(i, log) for i, log in enumerate(logs)]
        slowest = max(costs, key=lambda cost: cost.seconds)
        return EngineResult(
            model=model,
            engine_version=prepared.engine_version,
            outputs=parse_outputs([log.lines for log in logs], job.spec.outputs),
            party_mpc_s=tuple(cost.seconds for cost in costs),
            compile_s=prepared.compile_s,
            wall_s=wall_s,
            rounds=max(cost.rounds for cost in costs),
            sent_bytes=tuple(cost.sent_bytes for cost in costs),
            program_hash=prepared.program_hash,
            compile_options=prepared.compile_options,
            online_s=slowest.online_s,
            offline_s=slowest.offline_s,
            client_bytes=tuple(_client_bytes(i, log) for i, log in enumerate(logs)) if job.clients else None,
            peak_memory_bytes=peaks_of(logs),
        )


def compile_options(spec: ProtocolSpec, model: Model) -> tuple[str, ...]:
    """Return the model's options, with daBits alone (-X) for edaBits as well (-Y) where few would be used."""
    return tuple(
        "-X" if option == "-Y" and not spec.uses_edabits else option for option in model.compile_options
    )


def batch_that_works(batch: int, estimate: str) -> int:
    """Return the largest size of batches up to this one with which spdz2k-party.x does not abort.

    Computes: how many values it makes at once: a batch and one more; and of a program's n daBits all n, else
    n in the fewest equal parts of at most a batch, 10 of them at most, else a batch, and 41 more for its
    checks. Where that is 14 modulo 16, an assertion of its correlated randomness fails, in MP-SPDZ up to its
    head of June 2026.
    [test: tests/programs/test_batches.py]
    Args: estimate: what the compiler says of the program.
    """
    found = _DABITS.search(estimate)
    dabits = int(found[1]) if found else 0

    def works(size: int) -> bool:
        parts = (-(-dabits // i) for i in range(1, 11))
        at_once = next((part for part in parts if part <= size), size)
        return 14 not in {(size + 1) % 16, (at_once + 41) % 16}

    return next(size for size in range(batch, 0, -1) if works(size))


@lru_cache(maxsize=1)
def find_installation() -> Installation | str:
    """Return the user's MP-SPDZ, or one sentence on why there is none.

    Looks at `$MP_SPDZ_HOME` (`none` disables the search, empty counts as unset), else at `~/MP-SPDZ`
    and `/opt/MP-SPDZ`.
    """
    chosen = os.environ.get("MP_SPDZ_HOME", "")
    if chosen == "none":
        return "MP-SPDZ is switched off by MP_SPDZ_HOME=none."
    if chosen:
        candidates = [Path(chosen).expanduser()]
        missing = (
            f"MP_SPDZ_HOME is {chosen}, but there is no compile.py in it; point it at a build of MP-SPDZ."
        )
    else:
        candidates = [Path.home() / "MP-SPDZ", Path("/opt/MP-SPDZ")]
        missing = (
            "MP-SPDZ was not found at $MP_SPDZ_HOME, ~/MP-SPDZ or /opt/MP-SPDZ; "
            f"build it as its documentation says, {DOCUMENTATION}."
        )
    for home in candidates:
        if (home / "compile.py").is_file():
            return _inspect(home.resolve())
    return missing


def _client_bytes(party: int, log: PartyLog) -> tuple[int, int]:
    found = [match for line in log.lines if (match := _CLIENTS.fullmatch(line))]
    if len(found) != 1:
        raise OutputError(f"Party {party} ended well but did not report its clients' traffic.")
    return int(found[0][1]), int(found[0][2])


@dataclass(frozen=True)
class _Costs:
    seconds: float
    rounds: int
    sent_bytes: int
    online_s: float | None
    offline_s: float | None


def _costs(party: int, log: PartyLog) -> _Costs:
    def first(pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next((match for line in log.lines if (match := pattern.match(line))), None)

    seconds, sent, phases = first(_TIME), first(_SENT), first(_PHASES)
    if seconds is None or sent is None:
        raise OutputError(
            f"Party {party} ended well but did not report its time and traffic; is its disk full? "
            "No result was written."
        )
    online, offline = (float(phases[1]), float(phases[2])) if phases else (None, None)
    return _Costs(float(seconds[1]), int(sent[2]), round(float(sent[1]) * 1e6), online, offline)


def _inspect(home: Path) -> Installation:
    release = _release(home)
    number = tuple(int(part) for part in release.split(".")) if release != "unknown" else ()
    commit = _git(home, "rev-parse", "HEAD") if (home / ".git").exists() else None
    if commit is None:
        return Installation(home, "unknown", release, number >= _FIRST_FIXED_RELEASE)
    fixed = _git(home, "merge-base", "--is-ancestor", _FIX_COMMIT, "HEAD") is not None
    if not fixed and _git(home, "cat-file", "-e", f"{_FIX_COMMIT}^{{commit}}") is None:  # a shallow clone
        fixed = int(_git(home, "log", "-1", "--format=%ct") or 0) >= _FIX_TIME
    return Installation(home, commit, release, fixed)


def _release(home: Path) -> str:
    try:
        match = re.search(r"^## (\d+(?:\.\d+)+)", (home / "CHANGELOG.md").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else "unknown"


def _git(home: Path, *arguments: str) -> str | None:
    """Return git's answer, None if it says no or is not there."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(home), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
