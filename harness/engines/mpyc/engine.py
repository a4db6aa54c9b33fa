"""The embedded engine: the same programs on MPyC, three parties on this machine, nothing to set up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.engines.base import Address, Engine, EngineResult, Job, Prepared, Progress, local, no_charge
from harness.engines.mpyc.party import common_name
from harness.engines.network.links import links_between
from harness.engines.network.profiles import Network
from harness.engines.output_parser import PartyLog, parse_outputs, peaks_of
from harness.engines.parties.supervisor import free_ports, run_parties
from harness.engines.program_hash import program_hash
from harness.errors import OutputError, UnsupportedError
from harness.security_models import Model
from protocols.spec import InputForm, ProtocolSpec

_TIME = re.compile(r"Time = (\d+\.\d+) seconds")
_SENT = re.compile(r"Data sent = (\d+) bytes")


class EmbeddedEngine(Engine):
    """Interprets programs of the portable subset (`names.PORTABLE`) on MPyC, one process per party.

    Guarantees: passive security against one of three parties, statistical distance at most 2^-40 per
    comparison; parties on one machine listen on 127.0.0.1 only; none takes a connection without
    the run's certificates.  [test: tests/commands/test_embedded.py]
    """

    name = "embedded"

    def version(self) -> str | None:
        try:
            return f"MPyC {version('mpyc')}"
        except PackageNotFoundError:
            return None

    def availability(self, model: Model) -> str | None:
        if model.engine != self.name:
            return f"Model {model.name} runs on {model.engine}, not on the embedded engine."
        if self.version() is None:
            return "MPyC is not installed in this environment; ./inv installs it."
        return None

    def refusal(self, spec: ProtocolSpec, model: Model, form: InputForm) -> str | None:
        if not spec.portable:
            return f"{spec.name} uses features that only MP-SPDZ has; choose one of its models."
        if not form.path.portable:
            return f"Input path {form.path.name!r} needs MP-SPDZ; choose one of its models."
        return super().refusal(spec, model, form)

    def common_name(self, party: int) -> str:
        return common_name(party)

    @contextmanager
    def prepared(self, job: Job, model: Model) -> Iterator[Prepared]:
        installed, reason = self.version(), self.availability(model)
        if installed is None or reason is not None:
            raise UnsupportedError(str(reason))
        job.check_parties(model)
        yield Prepared(job, model, installed, self.program_hash(job, model))

    def config(self, prepared: Prepared, party: int, addresses: Sequence[Address]) -> dict[str, Any]:
        job, model = prepared.job, prepared.model
        return {
            "party": party,
            "common_names": [self.common_name(j) for j in range(model.parties)],
            "engine": self.name,
            "fair_bits": job.fair_bits,
            "program": str(job.source.resolve()),
            "arguments": [job.spec.name, *job.arguments],
            "addresses": addresses,
            "threshold": model.corruptions,
            "security_bits": model.statistical_security_bits,
        }

    def program_hash(self, job: Job, model: Model) -> str:
        job.check_parties(model)
        return program_hash(job, (str(self.version()),))

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
        with self.prepared(job, model) as prepared:
            progress("run")
            with free_ports(model.parties) as ports, links_between(ports, network) as links:
                configs = [self.config(prepared, i, local(seen)) for i, seen in enumerate(links.ports)]
                logs = run_parties(job, configs, work, timeout_s, starting)
        return replace(self.result(prepared, logs, time.monotonic() - started), network=links.measured)

    def result(self, prepared: Prepared, logs: Sequence[PartyLog], wall_s: float) -> EngineResult:
        job, model = prepared.job, prepared.model
        costs = [_costs(i, log) for i, log in enumerate(logs)]
        return EngineResult(
            model=model,
            engine_version=prepared.engine_version,
            outputs=parse_outputs([log.lines for log in logs], job.spec.outputs),
            party_mpc_s=tuple(seconds for seconds, _ in costs),
            compile_s=prepared.compile_s,
            wall_s=wall_s,
            rounds=None,
            sent_bytes=tuple(sent for _, sent in costs),
            program_hash=prepared.program_hash,
            compile_options=prepared.compile_options,
            peak_memory_bytes=peaks_of(logs),
        )


def _costs(party: int, log: PartyLog) -> tuple[float, int]:
    seconds = [match for line in log.lines if (match := _TIME.fullmatch(line))]
    sent = [match for line in log.lines if (match := _SENT.fullmatch(line))]
    if len(seconds) != 1 or len(sent) != 1:
        raise OutputError(
            f"Party {party} ended well but did not report its time and traffic; is its disk full? "
            "No result was written."
        )
    return float(seconds[0][1]), int(sent[0][1])
