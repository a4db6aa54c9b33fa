"""A run of a cell, by the same pipeline as any other run, on made-up clients."""

import math
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
from msgspec import UnsetType, structs, to_builtins

from benchmarks.emulation.links import emulated
from benchmarks.factors import AHEAD, PROGRAM, REQUEST_OF
from benchmarks.literal import literal_job, literal_of, literal_trial
from benchmarks.literal.protocols import literal_source
from benchmarks.measure.given_files import engine_with_files, reading_files
from benchmarks.measure.given_numbers import engine_giving
from benchmarks.measure.made_up import SourceAtHosts, made_up
from benchmarks.measure.over_hosts import BenchmarkHosts, BenchmarkRunner
from benchmarks.measure.samples import FAILED, OK, SKIPPED, Cell, Level, RunRecord, Sample, cell_key
from benchmarks.measure.sent_programs import compiled_apart
from benchmarks.suites import PARTIES, THREADS, Planned, machine_of, spec_of
from fairshares.harness.charged import UNCHARGED
from fairshares.harness.computation import Computation
from fairshares.harness.engines.execution import (
    PROGRAMS,
    TIMES,
    Conditions,
    EngineResult,
    Job,
    MadeUpJob,
    PrivateJob,
)
from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, UnsupportedError
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.hosts.trials import (
    KnownTrial,
    NoiseTrial,
    ProgramTrial,
    ReleaseTrial,
    inputs_of_size,
    public_integers,
    sent_of_size,
    sent_sizes,
)
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.manifest_of_run import computation_of, environment
from fairshares.harness.pipeline.noise_samples import noise_job, open_noise
from fairshares.harness.pipeline.preprocessing import joint_noise_of, preprocess
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.releases.base import (
    Answer,
    Statistic,
    statistic_of as statistic_of_request,
)
from fairshares.harness.releases.cap.request import CapRequest
from fairshares.harness.releases.noise_samples import Sampler, joint_sampler
from fairshares.harness.releases.thresholds.statistic import ThresholdsStatistic
from fairshares.harness.request.networks import parse_network
from fairshares.harness.request.readers import parse_delta, parse_epsilon
from fairshares.harness.request.releases import NoiseRequest
from fairshares.harness.request.request import (
    DEFAULT_DELTA,
    DISTRIBUTED,
    JOINT,
    Inputs,
    Randomness,
    Request,
)
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.training.session import SumSession
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.circuits.gaussian import JointGaussian
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonObject
from fairshares.protocols.spec import CLIENTS, NO_INPUT, PATHS, PI_LAP, PI_ROUNDS, ProtocolSpec


def model_of(cell: Mapping[str, Level]) -> SecurityModel:
    """Return the cell's model, of its number of parties, or what its machine of MP-SPDZ is to an engine."""
    machine = machine_of(cell)
    if machine is not None:
        return machine.model()
    return get_model(str(cell["security"]), parties_of(cell))


def parties_of(cell: Mapping[str, Level]) -> int | None:
    """Return the cell's number of parties; None for the usual number of its model."""
    return int(cell["parties"]) if "parties" in cell else None


LEDGER = "ledger.sqlite"  # a run's own ledger, in its directory


class Place:
    """The place where runs are measured: this machine with all parties, or hosts.

    Args:
        programs: The directory of a user's own programs.
        hosts: The hosts; None for this machine.
        inputs: The directory of directories of inputs for these programs.
    """

    def __init__(
        self, programs: Path = Path(), hosts: BenchmarkHosts | None = None, inputs: Path = Path()
    ) -> None:
        self._programs = programs
        self._hosts = hosts
        self._inputs = inputs

    def measure(self, suite: str, planned: Planned, repetition: int, scratch: Path) -> Sample:
        """Run a repetition of a cell, if the cell can run here.

        Args:
            suite: The suite's name.
            planned: The cell.
            repetition: The repetition's number.
            scratch: A directory for the run, which is empty again afterwards.
        """
        cell = planned.cell
        reason = self.why_not(planned)
        out = scratch / "run"
        record = RunRecord()
        hosts: tuple[JsonObject, ...] = ()
        if reason is not None:
            status = SKIPPED
        else:
            status = OK
            try:
                record = self._run(cell, planned.timeout_s, out)
            except FairSharesError as error:
                status = FAILED
                reason = str(error)
            finally:
                shutil.rmtree(out, ignore_errors=True)
        if self._hosts is not None and status == OK:
            seen = self._hosts.seen[model_of(cell).title]
            record = replace(record, network=seen.network)
            hosts = seen.hosts
        installation = find_installation()
        commit = installation.commit if isinstance(installation, Installation) else None
        here = environment()
        return Sample(
            suite,
            cell,
            repetition,
            status,
            time=here.time,
            environment={**to_builtins(here), "mp_spdz_commit": commit},
            reason=reason,
            hosts=hosts,
            engine=record.engine,
            engine_version=record.engine_version,
            program_hash=record.program_hash,
            compile_options=record.compile_options,
            times=record.times,
            rounds=record.rounds,
            sent_bytes=record.sent_bytes,
            client_sent_bytes=record.client_sent_bytes,
            peak_memory_bytes=record.peak_memory_bytes,
            network=record.network,
            phases=record.phases,
            printed=record.printed,
        )

    def why_not(self, planned: Planned) -> str | None:
        """Return why a cell is skipped; None if it is not."""
        return planned.excluded or self._unsupported(planned.cell)

    def identity(self, cell: Mapping[str, Level]) -> tuple[str, str] | None:
        """Return the program's hash and the engine's version in a run of the cell now; None if unknown.

        [test: tests/commands/test_bench_measured.py]
        """
        if self._hosts is not None or self._unsupported(cell) is not None:
            return None  # known only after hosts have run it
        model = model_of(cell)
        engine = engine_of(model)
        return engine.program_hash(job_of(cell, self._programs), model), str(engine.version())

    def _unsupported(self, cell: Mapping[str, Level]) -> str | None:
        model = model_of(cell)
        network = cell.get("network", "none")
        if self._hosts is not None and network != "none":
            return "No network is emulated between hosts: theirs is measured, and stands beside each result."
        if self._hosts is not None and len(self._hosts.hosts) < model.parties:
            return f"{model.title} takes {model.parties} hosts; there are {len(self._hosts.hosts)}."
        if PROGRAM in cell and self._hosts is not None:
            return _why_not_at_hosts(cell, model)
        if PROGRAM in cell:
            machine = machine_of(cell)
            refusal = None if machine is None else machine.refusal()
            return refusal or engine_of(model).availability(model)
        literal = literal_of(cell)
        if literal:
            where = self._runner(cell) or engine_of(model)
            return where.supports(literal, model, NO_INPUT)
        has_rounds = cell["protocol"] == PI_ROUNDS.name
        if has_rounds and (self._hosts is not None or network != "none"):
            return "Rounds run on one machine, without an emulated network."
        try:
            if has_rounds:
                session_of(cell).check_supported()
            else:
                self._settings(cell).check_supported(spec_of(cell))
        except UnsupportedError as error:
            return str(error)
        return None

    def _run(self, cell: Mapping[str, Level], timeout_s: float, out: Path) -> RunRecord:
        """Run a cell once, and return the run's record."""
        if PROGRAM in cell or literal_of(cell):
            return self._run_program(cell, timeout_s, out)
        if cell["protocol"] == PI_ROUNDS.name:
            return record_of(_computation_of_a_round(session_of(cell, out.with_name(LEDGER), timeout_s)))
        return record_of(self._run_ours(cell, timeout_s, out))

    def _run_ours(self, cell: Mapping[str, Level], timeout_s: float, out: Path) -> Computation:
        settings = replace(self._settings(cell), timeout_s=timeout_s)
        if cell["protocol"] == PI_LAP.name:
            runner = self._runner(cell) or engine_of(settings.release.model)
            _, manifest_of_noise = open_noise(
                sampler_of(cell), int(cell["samples"]), settings, out, nothing_said, runner=runner
            )
            return manifest_of_noise
        statistic = statistic_of(cell)
        federation = federation_of(cell, statistic)
        source: RecordsSource | SourceAtHosts
        if self._hosts is None:
            source = RecordsSource(made_up(federation))
        else:
            source = SourceAtHosts(federation)  # each host makes up the records itself
        if not settings.release.randomness.offline:
            return run_release(statistic, source, settings, out, nothing_said).manifest
        stock = Stock(out.with_name("stock"))
        prepared = statistic.prepare(settings.release, federation.domain)
        (piece,) = preprocess(joint_noise_of(prepared), stock, 1, timeout_s, nothing_said)
        # The account remembers the piece, and charges nobody.
        settings = replace(settings, stock=stock, account=Account(Ledger(out.with_name(LEDGER))))
        manifest = run_release(statistic, source, settings, out, nothing_said).manifest
        return structs.replace(manifest, online_s=manifest.mpc_s, offline_s=piece.mpc_s)

    def _run_program(self, cell: Mapping[str, Level], timeout_s: float, out: Path) -> RunRecord:
        """Run a user's program, or a literal protocol, once; return the run's record."""
        began = time.monotonic()
        model = model_of(cell)
        network = emulated(parse_network(str(cell.get("network", "none"))))
        job = program_job(cell, self._programs)
        if PROGRAM in cell:
            job = replace(job, compile_timeout_s=timeout_s)
        conditions = Conditions(out, timeout_s, nothing_said, network)
        given = cell.get("inputs", 0)
        if PROGRAM in cell and self._hosts is not None:
            result = _run_at_hosts(self._hosts, cell, job, conditions)
        elif isinstance(given, str):
            model = reading_files(model)
            result = engine_with_files(model, self._inputs / given).run(job, model, conditions)
        else:
            integers = None
            if PROGRAM in cell:
                integers = public_integers(model.parties, int(given))
            runner = self._runner(cell) or engine_giving(model, integers)
            result = runner.run(job, model, conditions)
        computation = computation_of(result, time.monotonic() - began, share_s=0.0)
        return replace(record_of(computation), phases=result.phases, printed=result.printed)

    def _settings(self, cell: Mapping[str, Level]) -> RunSettings:
        network = emulated(parse_network(str(cell["network"])))
        return RunSettings(request_of(cell), network=network, hosts=self._runner(cell))

    def _runner(self, cell: Mapping[str, Level]) -> BenchmarkRunner | None:
        """Return the runner of a cell on hosts; None for this machine."""
        if self._hosts is None:
            return None
        return BenchmarkRunner(self._hosts, model_of(cell), trial_of(cell))


def _why_not_at_hosts(cell: Mapping[str, Level], model: SecurityModel) -> str | None:
    """Return why no program of the user's own can be compiled here for hosts, None if it can."""
    if machine_of(cell) is not None:
        return (
            "A program of your own runs at hosts in security models: links of other machines of MP-SPDZ ask "
            "no peer for a certificate."
        )
    if isinstance(cell.get("inputs"), str):
        return "A program of your own reads public integers at hosts, and no files of inputs."
    if model.virtual_machine is None:
        return "A program of your own runs at hosts in models of MP-SPDZ only."
    installation = find_installation()
    return installation if isinstance(installation, str) else None


def _run_at_hosts(
    hosts: BenchmarkHosts, cell: Mapping[str, Level], job: MadeUpJob, conditions: Conditions
) -> EngineResult:
    """Compile a program of the user's own here, and run it at hosts whose owners allow its digest.

    Raises PolicyError, with the digest, if an owner does not; UnsupportedError, CompileError, or as
    `BenchmarkRunner.run`.
    """
    model = model_of(cell)
    engine = MpSpdzEngine()
    began = time.monotonic()
    directory = conditions.work.with_name("compiled")
    try:
        compiled = compiled_apart(job, model, directory)
        compile_s = time.monotonic() - began
        trial = ProgramTrial(
            security=model.name,
            parties=model.stated_parties,
            compiled_by=str(engine.version()),
            program=compiled.program,
            integers=int(cell.get("inputs", 0)),
        )
        result = BenchmarkRunner(hosts, model, trial).run(compiled, model, conditions)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return replace(result, times={**result.times, "compile_s": compile_s})


def session_of(cell: Mapping[str, Level], ledger: Path | None = None, timeout_s: float = 600) -> SumSession:
    """Return the session of a cell's rounds, charged to nobody."""
    noise = str(cell.get("noise", JOINT))
    is_made_ahead = noise == AHEAD
    return SumSession(
        str(cell["security"]),
        clients=1,
        coordinates=int(cell["coordinates"]),
        rounds=int(cell["rounds"]),
        clip=1.0,
        epsilon=str(cell["epsilon"]),
        noise=JOINT if is_made_ahead else noise,
        offline=is_made_ahead,
        population=UNCHARGED,
        ledger=ledger,
        timeout=timeout_s,
        parties=parties_of(cell),
    )


def _computation_of_a_round(session: SumSession) -> Computation:
    """Run a session, and return its computation with the median time of rounds after the first."""
    started = time.monotonic()
    made_ahead = session.preprocess() if session.offline else []
    with session:
        for _ in range(session.rounds):
            session.add(np.zeros((1, session.rule.coordinates)))
    computation = computation_of(session.result, time.monotonic() - started, share_s=0.0)
    round_s = median(session.seconds[1:] or session.seconds)
    if not made_ahead:
        return structs.replace(computation, mpc_s=round_s)
    noise_s = made_ahead[0]["mpc_s"]
    assert isinstance(noise_s, float)
    return structs.replace(computation, mpc_s=round_s, online_s=round_s, offline_s=noise_s / session.rounds)


def record_of(computation: Computation) -> RunRecord:
    """Return a computation as the record of its run, without phases and without what a program printed."""
    client_sent = computation.client_sent_bytes
    return RunRecord(
        engine=computation.engine,
        engine_version=computation.engine_version,
        program_hash=computation.program_hash,
        compile_options=tuple(computation.compile_options),
        times={name: getattr(computation, name) for name in TIMES},
        rounds=computation.rounds,
        sent_bytes=tuple(computation.sent_bytes),
        client_sent_bytes=None if isinstance(client_sent, UnsetType) else tuple(client_sent),
        peak_memory_bytes=tuple(computation.peak_memory_bytes),
        network=None if computation.network is None else to_builtins(computation.network),
    )


HERE = Place()


@contextmanager
def over_hosts(path: Path, programs: Path = Path()) -> Iterator[Place]:
    """Yield the place of the hosts that a file lists, while they are connected."""
    with closing(BenchmarkHosts(read_hosts(path))) as hosts:
        yield Place(programs, hosts)


def trial_of(cell: Mapping[str, Level]) -> KnownTrial:
    """Return the trial on hosts of a cell of what they have themselves."""
    model = model_of(cell)
    if literal_of(cell):
        return literal_trial(cell, model)
    request = request_of(cell)
    if cell["protocol"] == PI_LAP.name:
        return NoiseTrial(
            security=model.name,
            parties=model.stated_parties,
            guarantee=Guarantee(request.protect.epsilon, request.protect.delta),
            samples=int(cell["samples"]),
        )
    federation = federation_of(cell, statistic_of(cell))
    return ReleaseTrial(
        security=model.name,
        parties=model.stated_parties,
        asked=request.to_json(),
        federation=federation,
    )


def program_job(cell: Mapping[str, Level], programs: Path = Path()) -> MadeUpJob:
    """Return the job of a user's program, or of a literal protocol, whose inputs are made up."""
    model = model_of(cell)
    if PROGRAM not in cell:
        return literal_job(cell, model)
    source = programs / str(cell[PROGRAM])
    told = str(cell.get("arguments", "")).replace(PARTIES, str(model.parties))
    machine = machine_of(cell)
    if machine is None:
        compile_options = tuple(shlex.split(str(cell.get("compile_options", ""))))
    else:
        compile_options = machine.compiler_options
    return MadeUpJob(
        ProtocolSpec(source.stem, "a program of the user's", (), {}, (), ("whatever it opens",)),
        source,
        tuple(shlex.split(told.replace(THREADS, str(cell.get("threads", 1))))),
        compile_options=compile_options,
        keeps_printed=True,
    )


def job_of(cell: Mapping[str, Level], programs: Path = Path()) -> Job:
    """Return a cell's job without clients' values."""
    model = model_of(cell)
    if PROGRAM in cell or literal_of(cell):
        return program_job(cell, programs)
    if cell["protocol"] == PI_ROUNDS.name:
        return _with_places(session_of(cell).planned.job, model)
    if cell["protocol"] == PI_LAP.name:
        return noise_job(sampler_of(cell), int(cell["samples"]), model)
    statistic = statistic_of(cell)
    release = request_of(cell)
    federation = federation_of(cell, statistic)
    inputs = inputs_of_size(federation, release.form)
    if release.form.path is CLIENTS:
        # No program depends on clients' certificates.
        unknown = [""] * len(sent_sizes(federation, release.form))
        inputs = sent_of_size(federation, release.form, unknown)
    return _with_places(make_job(statistic.prepare(release, federation.domain), inputs), model)


def _with_places(job: PrivateJob, model: SecurityModel) -> PrivateJob:
    """Return a job with a place for each party's piece of noise, if it takes one."""
    if not job.spec.uses_piece:
        return job
    return replace(job, pieces=(Path(),) * model.parties)


def error_ratio(cell: Mapping[str, Level]) -> float:
    """Return the exact standard error with distributed noise, divided by the error with joint noise."""
    without_network = {**cell, "network": "none"}  # errors do not depend on it
    distributed = _count_error(cell_key({**without_network, "noise": DISTRIBUTED}))
    joint = _count_error(cell_key({**without_network, "noise": JOINT}))
    return distributed / joint


@cache
def _count_error(key: Cell) -> float:
    """Return the standard error of a count, or for rounds of a coordinate."""
    cell = dict(key)
    if cell["protocol"] == PI_ROUNDS.name:
        session = session_of(cell)
        noise = session.plan.noise
        units = session.rule.units
        if isinstance(noise, JointGaussian):
            squares = sum(weight * (i - noise.largest) ** 2 for i, weight in enumerate(noise.weights))
            mean_square = Fraction(squares, sum(noise.weights))
        else:
            mean_square = noise.mean_square_error
        return math.sqrt(mean_square) / units
    statistic = statistic_of(cell)
    domain = federation_of(cell, statistic).domain
    sizes = np.ones((len(domain.groups), max(1, len(domain.labels))))  # a count's error is the same for all
    error = statistic.expected_error(statistic.prepare(request_of(cell), domain), sizes)
    assert error.count_rmse is not None
    return error.count_rmse


def request_of(cell: Mapping[str, Level]) -> Request:
    """Return a cell's request."""
    given = {"epsilon": str(cell["epsilon"]), "security": str(cell["security"])}
    if "parties" in cell:
        given["parties"] = str(cell["parties"])
    if cell["protocol"] == PI_LAP.name:
        return NoiseRequest(**given)
    variant = str(cell["variant"])
    kind = REQUEST_OF[str(cell["protocol"])]
    if "variant" in kind.declared and variant in kind.protocols:
        given["variant"] = variant
    elif "input_form" in kind.declared:
        usual = next(iter(spec_of(cell).input_forms))
        given["input_form"] = variant if variant in kind.input_forms() else usual
    if kind is CapRequest:
        given["release_epsilon"] = given["epsilon"]
    elif cell.get("cap"):
        given["privacy_unit"] = str(PrivacyUnit.CLIENT)
    noise = str(cell.get("noise", JOINT))
    is_made_ahead = noise == AHEAD
    if "noise" in kind.declared:
        given["noise"] = JOINT if is_made_ahead else noise
    request = kind(**given).but(Inputs.input_path, PATHS[str(cell["input_path"])])
    if is_made_ahead:
        request = request.but(Randomness.offline, True)
    return request


def source_of(cell: Mapping[str, Level]) -> Path:
    """Return the file of a cell's program."""
    literal = literal_of(cell)
    if literal:
        return literal_source(literal)
    return PROGRAMS / f"{spec_of(cell).name}.mpc"


def statistic_of(cell: Mapping[str, Level]) -> Statistic[Answer]:
    """Return the statistic that a cell measures.

    For thresholds it is the curves', as no choice may be possible on curves of made-up records.
    """
    statistic = statistic_of_request(request_of(cell))
    if isinstance(statistic, ThresholdsStatistic):
        return statistic.curves
    return statistic


def federation_of(cell: Mapping[str, Level], statistic: Statistic[Answer]) -> FederationSize:
    """Return a cell's made-up clients."""
    return FederationSize(
        clients=int(cell["clients"]),
        records=int(cell["records"]),
        groups=int(cell["groups"]),
        labels=int(cell["labels"]),
        detail=statistic.kind,
        thresholds=int(cell.get("thresholds", 0)),
        cap=int(cell.get("cap", 0)),
    )


def sampler_of(cell: Mapping[str, Level]) -> Sampler:
    """Return the sampler of a cell of π_LAP."""
    epsilon = parse_epsilon(str(cell["epsilon"]))
    delta = parse_delta(DEFAULT_DELTA, "delta")
    return joint_sampler(epsilon, delta)
