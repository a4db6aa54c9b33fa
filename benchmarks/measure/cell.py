"""One run of one cell by the normal pipeline, on made-up clients, and what it cost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.samples import FAILED, OK, SKIPPED, TIMES, Cell, Level, Sample, cell_key
from benchmarks.suites import Planned
from harness.cli.release_options import RELEASES
from harness.engines.base import PROGRAMS, Job, Progress, Runner
from harness.engines.emulated_network.profiles import parse_network
from harness.engines.mpspdz.discovery import Installation, find_installation
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, UnsupportedError
from harness.inputs.synthetic import Federation
from harness.pipeline import manifest as report
from harness.pipeline.noise_samples import noise_job, open_noise
from harness.pipeline.party_inputs import RecordsSource, Source, synthetic_inputs
from harness.pipeline.run import DEFAULT_DELTA, RunSettings, make_job, run_release
from harness.releases.base import JOINT, OWN, Release, Statistic
from harness.releases.expected_errors import ExpectedError
from harness.releases.noise_samples import Sampler, choose_sampler
from harness.releases.registry import STATISTICS
from harness.releases.score_curves import ThresholdsStatistic
from harness.request.readers import parse_delta, parse_epsilon
from harness.security_models import Model, get_model
from protocols.accounting.calibration import PrivacyUnit
from protocols.noise.tables import NoiseLaw
from protocols.spec import (
    NO_INPUT,
    PATHS,
    PI_CAP,
    PRODUCT,
    InputForm,
    ProtocolSpec,
)

_TASKS = {next(iter(each.specs.values())).name: task for task, each in STATISTICS.items()}


@dataclass(frozen=True)
class Identity:
    """What all results of one cell have in common.

    Attributes: program_hash: of text, arguments, compile options and engine; engine_version: with a commit.
    """

    program_hash: str
    engine_version: str


def model_of(cell: Mapping[str, Level]) -> Model:
    """Return the cell's model."""
    return get_model(str(cell["model"]))


class Place:
    """Where cells are measured: this machine, with all parties on it."""

    def measure(
        self, suite: str, planned: Planned, repetition: int, scratch: Path, progress: Progress
    ) -> Sample:
        """Run one repetition, or find that it cannot be; whichever it is, what is returned says so.

        Args: scratch: a directory for the run's own, which is gone afterwards.
        """
        cell, reason = planned.cell, self.why_not(planned)
        if reason is not None:
            return _without_figures(suite, cell, repetition, SKIPPED, reason)
        out = scratch / "run"
        try:
            manifest = self._run(cell, planned.timeout_s, out, progress)
        except FairSharesError as error:
            return _without_figures(suite, cell, repetition, FAILED, str(error))
        finally:
            shutil.rmtree(out, ignore_errors=True)
        sent = manifest.get("client_sent_bytes")
        return Sample(
            suite,
            cell,
            repetition,
            OK,
            now(),
            _with_commit(manifest["environment"]),
            times={name: manifest[name] for name in TIMES},
            rounds=manifest["rounds"],
            sent_bytes=tuple(manifest["sent_bytes"]),
            client_sent_bytes=sent and tuple(sent),
            peak_memory_bytes=tuple(manifest["peak_memory_bytes"]),
            program_hash=manifest["program_hash"],
            compile_options=tuple(manifest["compile_options"]),
            engine=manifest["engine"],
            engine_version=manifest["engine_version"],
            **{"network": manifest.get("network"), **self.surroundings(cell)},
        )

    def why_not(self, planned: Planned) -> str | None:
        """Return why a cell is skipped here and now, None if it is run."""
        return planned.excluded or self._unsupported(planned.cell)

    def identity(self, cell: Mapping[str, Level]) -> Identity | None:
        """Return what a run of the cell would be a run of, without running it; None if that is not known.

        Guarantees: the program hash is the one that the run would have.
        [test: tests/commands/test_bench_measured.py]
        """
        if self._unsupported(cell) is not None:
            return None
        model = model_of(cell)
        engine = engine_of(model)
        return Identity(engine.program_hash(self.job_of(cell), model), str(engine.version()))

    def job_of(self, cell: Mapping[str, Level]) -> Job:
        """Return the job of a run of the cell, but for the clients' values."""
        return job_of(cell)

    def about(self) -> dict[str, Any]:
        """Return what results are told of the place."""
        return {"machine": report.machine(), "environment": report.environment()}

    def hosts(self, cell: Mapping[str, Level]) -> Runner | None:  # noqa: ARG002
        """Return what runs a cell's parties elsewhere, None if that is here."""
        return None

    def unfit(self, cell: Mapping[str, Level]) -> str | None:  # noqa: ARG002
        """Return why this is no place for a cell, whatever its program, None if it is."""
        return None

    def surroundings(self, cell: Mapping[str, Level]) -> dict[str, Any]:  # noqa: ARG002
        """Return what a sample says of where it was measured: its fields, by name."""
        return {}

    def _unsupported(self, cell: Mapping[str, Level]) -> str | None:
        """Return why this combination cannot run here, None if it can."""
        if (reason := self.unfit(cell)) is not None:
            return reason
        spec, settings = _spec_and_settings(cell)
        try:
            replace(settings, hosts=self.hosts(cell)).check_supported(spec)
        except UnsupportedError as error:
            return str(error)
        return None

    def _run(
        self, cell: Mapping[str, Level], timeout_s: float, out: Path, progress: Progress
    ) -> dict[str, Any]:
        _, settings = _spec_and_settings(cell)
        settings = replace(settings, timeout_s=timeout_s, hosts=self.hosts(cell))
        if cell["protocol"] == "pi_lap":
            return open_noise(sampler_of(cell), int(cell["samples"]), settings, out, progress).manifest
        statistic = curves_of(statistic_of(cell))
        source = self._source(federation_of(cell, statistic))
        return run_release(statistic, source, settings, out, progress).manifest

    def _source(self, federation: Federation) -> Source:
        """Return where the parties' inputs come from."""
        return RecordsSource(federation.made_up())


HERE = Place()


def job_of(cell: Mapping[str, Level]) -> Job:
    """Return the job that a run of the cell has, but for the clients' values."""
    model = model_of(cell)
    if cell["protocol"] == "pi_lap":
        return noise_job(sampler_of(cell), int(cell["samples"]), model)
    statistic, release = curves_of(statistic_of(cell)), release_of(cell)
    federation = federation_of(cell, statistic)
    prepared = statistic.prepare(release, federation.domain)
    return make_job(prepared, synthetic_inputs(federation, release.form, model))


def error_ratio(cell: Mapping[str, Level]) -> float:
    """Return how many times as far off a count is with noise of the parties' own as with joint noise.

    Computes: standard errors, by the noises' exact variances; of curves, of the mean square over thresholds.
    """
    same = {**cell, "network": "none"}  # on which errors do not depend
    own, joint = (_count_error(cell_key({**same, "noise": noise})) for noise in (OWN, JOINT))
    return own / joint


@cache
def _count_error(key: Cell) -> float:
    cell = dict(key)
    statistic = curves_of(statistic_of(cell))
    domain = federation_of(cell, statistic).domain
    sizes = np.ones(
        (len(domain.groups), max(1, len(domain.labels)))
    )  # on which a count's error does not depend
    found = statistic.expected_error(statistic.prepare(release_of(cell), domain), sizes)
    assert isinstance(found, ExpectedError)
    return found.count


def release_of(cell: Mapping[str, Level]) -> Release:
    """Return what a cell releases, and by which model."""
    return _spec_and_settings(cell)[1].release


def source_of(cell: Mapping[str, Level]) -> Path:
    """Return the file of a cell's program."""
    return PROGRAMS / f"{_spec_and_settings(cell)[0].name}.mpc"


def _spec_and_settings(cell: Mapping[str, Level]) -> tuple[ProtocolSpec, RunSettings]:
    if cell["protocol"] == "pi_lap":
        return sampler_of(cell).spec, _settings(cell, NO_INPUT)
    spec = statistic_of(cell).spec
    return spec, _settings(cell, _form(cell, spec))


def statistic_of(cell: Mapping[str, Level]) -> Statistic[Any]:
    """Return the statistic of a cell, as its command makes it without other options.

    Its variant is one of the statistic's protocols, or `slots`; others are the default one.
    """
    task, variant, epsilon = _TASKS[str(cell["protocol"])], str(cell["variant"]), str(cell["epsilon"])
    known, options = STATISTICS[task], RELEASES[task]
    spec = known.slots if variant == "slots" else known.specs.get(variant)
    texts = {"epsilon": epsilon, **({options.chooses: variant} if variant in known.specs else {})}
    if task == "cap":
        texts["release_epsilon"] = epsilon
    return options(**texts).statistic(spec or next(iter(known.specs.values())))


def curves_of(statistic: Statistic[Any]) -> Statistic[Any]:
    """Return what is run for a statistic: of thresholds their curves, the same program without a choice."""
    return statistic.curves if isinstance(statistic, ThresholdsStatistic) else statistic


def _form(cell: Mapping[str, Level], spec: ProtocolSpec) -> InputForm:
    """Return the input form that goes with the variant; protocols with one form only have that."""
    name = PRODUCT.name if cell["variant"] == "product" else next(iter(spec.input_forms))
    return spec.input_forms[name].by(PATHS[str(cell["input_path"])])


def _settings(cell: Mapping[str, Level], form: InputForm) -> RunSettings:
    epsilon, delta = parse_epsilon(str(cell["epsilon"])), parse_delta(DEFAULT_DELTA, "--delta")
    network = parse_network(str(cell["network"]))
    of_clients = cell.get("cap") or cell["protocol"] == PI_CAP.name
    unit = PrivacyUnit.CLIENT if of_clients else PrivacyUnit.RECORD
    law = NoiseLaw.LAPLACE if cell.get("noise") == OWN else None
    return RunSettings(Release(model_of(cell), form, epsilon, delta, unit=unit, law=law), network=network)


def federation_of(cell: Mapping[str, Level], statistic: Statistic[Any]) -> Federation:
    """Return whose records those of a cell are."""
    clients, records, groups, labels = (
        int(cell[name]) for name in ("clients", "records", "groups", "labels")
    )
    thresholds, cap = int(cell.get("thresholds", 0)), int(cell.get("cap", 0))
    return Federation(clients, records, groups, labels, statistic.kind, thresholds, cap)


def sampler_of(cell: Mapping[str, Level]) -> Sampler:
    """Return what makes the samples of a cell of π_LAP."""
    epsilon, delta = parse_epsilon(str(cell["epsilon"])), parse_delta(DEFAULT_DELTA, "--delta")
    return choose_sampler(str(cell["variant"]), epsilon, delta, rounded=False)


def _without_figures(
    suite: str, cell: Mapping[str, Level], repetition: int, status: str, reason: str
) -> Sample:
    return Sample(suite, cell, repetition, status, now(), _with_commit(report.environment()), reason)


def _with_commit(environment: Mapping[str, Any]) -> dict[str, Any]:
    found = find_installation()
    commit = found.commit if isinstance(found, Installation) else None
    return {**environment, "mp_spdz_commit": commit}


def now() -> str:
    """Return the time, as results have it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
