"""The kinds of runs at a host: releases, noise made ahead, and benchmark runs.

Each kind says what a run takes of its host, what the host signs before it begins, what its beginning writes,
and what its end adds. `party_run.py` has the steps that they have in common.
"""

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from fairshares.harness.charged import Chargeable
from fairshares.harness.engines.compiled import CompiledJob, ProgramFile, place_of, tapes_in
from fairshares.harness.engines.engine import left_out_by
from fairshares.harness.engines.execution import Job, parse_outputs
from fairshares.harness.engines.parties.handle import LocalProcess, PartyState
from fairshares.harness.engines.parties.sandbox import missing
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import HostUnfitError, OutputError, StockError
from fairshares.harness.hosts import host_keys, local_host
from fairshares.harness.hosts.guard import Guard, GuardedCharge, GuardedJob
from fairshares.harness.hosts.host_log import Event
from fairshares.harness.hosts.local_host import LocalHost
from fairshares.harness.hosts.messages import (
    Agree,
    GetReport,
    Go,
    Keep,
    Kill,
    Prepare,
    Preprocess,
    RunTrial,
    Sending,
    TakeProgram,
)
from fairshares.harness.hosts.party_run import (
    Begun,
    ClientsInvited,
    Fed,
    InvitedClients,
    Over,
    PlannedRun,
    RunInputs,
    Running,
    RunOfClients,
    RunPlace,
    RunState,
)
from fairshares.harness.hosts.signed_results import (
    BenchmarkIntent,
    InputSource,
    Intent,
    PreparedParty,
    Statement,
    UploadList,
    check_made,
    sign,
)
from fairshares.harness.hosts.states import RunKind, State, Step, Stepping
from fairshares.harness.hosts.trials import KnownTrial, ProgramTrial, ReleaseTrial, Trial
from fairshares.harness.inputs.record_schema import RecordDomain, domain_from_json
from fairshares.harness.pipeline.preprocessing import NoiseToMake, noise_job, terms_of
from fairshares.harness.pipeline.sources import PartyInputs
from fairshares.harness.privacy.ledger.entries import next_head
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.privacy.stock import PieceRecord, new_name, shares_of
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import create_file, write_whole
from fairshares.harness.uploads.signatures import Signed

_PIECE = "piece"  # the directory of a run's noise, in the run's directory
_PROGRAM = "Programs"  # the directory of a coordinator's program, likewise


def _signed_end(
    ran: Intent,
    running: Running,
    last: PartyState,
    spent: tuple[str, str],
    outputs: dict[str, list[int]],
) -> Signed:
    """Return the statement that a host signs of a run that ended well.

    Args:
        ran: The statement that the host signed before the run.
        running: The run.
        last: The last state of its party.
        spent: The exact ε and δ that the run spent.
        outputs: The opened integers, by the names of their lines.

    Raises OutputError if clients sent, and the party's gateway did not say how many it left out.
    """
    left_out: dict[str, int] = {}
    if ran.source == InputSource.INVITED:
        left_out = left_out_by(running.party, last.lines)
    statement = Statement(
        ran=ran,
        met={str(other): text for other, text in running.process.met().items()},
        spent=spent,
        outputs=outputs,
        left_out=left_out,
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return sign(statement, running.place.keys.own(running.party))


# Releases.


@dataclass(frozen=True)
class UploadedInputs(RunInputs[Intent]):
    """The uploads, or the aggregate, that a release takes.

    Attributes:
        guard: The guard of the release.
        inputs: The public facts about the inputs.
        values: The file with this party's shares of the sums.
        source: Whether the inputs are uploads or an aggregate.
        heard: All hosts' lists of the uploads, by party. There are none for an aggregate.
        noise_terms: The name of the noise made ahead that the release takes, None for none.
    """

    guard: Guard
    inputs: PartyInputs
    values: Path
    source: InputSource
    heard: Mapping[int, UploadList]
    noise_terms: str | None

    def planned(self, message: Prepare, place: RunPlace) -> PlannedRun[Intent]:
        release = ReleaseOfUploads(place, self.guard.job(self.inputs), self.source, self.heard, self.values)
        if self.noise_terms is None:
            return release
        if message.piece is None:  # which no other name of a piece may stand for
            raise StockError(
                "The release takes noise made ahead, and whoever starts it named no piece of it; start it "
                "again."
            )
        return ReleaseWithPiece.of_terms(release, self.noise_terms, message.piece)


@dataclass(frozen=True)
class ClientsOfRelease(InvitedClients[Intent]):
    """The clients that send to a release while it runs.

    Attributes:
        guard: The guard of the release.
    """

    guard: Guard

    def planned(self, clients: Sending, place: RunPlace) -> RunOfClients[Intent]:
        inputs = self.guard.sent(clients.terms, clients.certificates)
        return RunOfClients(ReleaseOfInvited(place, self.guard.job(inputs)), inputs.values)


@dataclass(frozen=True)
class PlannedRelease(PlannedRun[Intent]):
    """A release whose job is known.

    Attributes:
        place: The run's directories and facts at its host.
        guarded: The job, and what will be charged for it.
    """

    place: RunPlace
    guarded: GuardedJob

    @property
    def job(self) -> Job:
        return self.guarded.job

    @property
    def guard(self) -> Guard:
        """The guard of the release."""
        return self.guarded.guard

    def seen(self, party: int) -> dict[str, str]:
        return self.guard.seen(self.place.keys.all_histories(party))

    @abstractmethod
    def ahead(self, prepared: PreparedParty, message: Agree) -> Intent:
        """Return the statement before the run, as `GuardedJob.intent`."""

    def intent(self, prepared: PreparedParty, message: Agree) -> Intent:
        self.guarded.check()
        ahead = self.ahead(prepared, message)
        histories = self.place.keys.all_histories(prepared.party)
        return self.guard.with_heads(ahead, histories, message.heads)

    def begin(self, own: Intent, others: Mapping[int, Intent], agreed: Chargeable) -> "BegunRelease":
        charge = self.guarded.charged(own, others, agreed)
        self.place.host.log.write(Event.CHARGED, Go.name(), charge.sentence, own.run)
        return BegunRelease(self.place, own, others, charge)


@dataclass(frozen=True)
class ReleaseOfInvited(PlannedRelease):
    """A release to which clients send while it runs, so that its host has no file for it."""

    @property
    def values(self) -> None:
        return None

    def ahead(self, prepared: PreparedParty, message: Agree) -> Intent:
        return self.guarded.intent(prepared, message, InputSource.INVITED, {})


@dataclass(frozen=True)
class ReleaseOfUploads(PlannedRelease):
    """A release of uploads, or of an aggregate.

    Attributes:
        source: Which of the two the inputs are.
        heard: All hosts' lists of the uploads, by party. There are none for an aggregate.
        file: The file with this party's shares of the sums.
    """

    source: InputSource
    heard: Mapping[int, UploadList]
    file: Path

    @property
    def values(self) -> Path:
        return self.file

    def ahead(self, prepared: PreparedParty, message: Agree) -> Intent:
        return self.guarded.intent(prepared, message, self.source, self.heard)


@dataclass(frozen=True)
class ReleaseWithPiece(ReleaseOfUploads):
    """A release that takes a piece of noise made ahead.

    Attributes:
        noise_terms: The name of the noise.
        piece: The name of the piece.
    """

    noise_terms: str
    piece: str

    @classmethod
    def of_terms(cls, release: ReleaseOfUploads, noise_terms: str, piece: str) -> Self:
        """Return a release that takes a piece of this noise, with the place where it will be."""
        pieces = shares_of(release.place.scratch / _PIECE, release.place.model.parties)
        guarded = replace(release.guarded, job=replace(release.guarded.job, pieces=pieces))
        return cls(
            release.place,
            guarded,
            release.source,
            release.heard,
            release.file,
            noise_terms=noise_terms,
            piece=piece,
        )

    def taken(self) -> Self:
        target = self.place.scratch / _PIECE
        parties = self.place.model.parties
        piece = self.guard.stock.take(self.noise_terms, parties, target, only=self.piece)
        return replace(self, guarded=self.guarded.with_piece(piece))


@dataclass(frozen=True)
class BegunRelease(Begun):
    """A release that its host's ledger has charged: there is none without a `GuardedCharge`.

    Attributes:
        place: The run's directories and facts at its host.
        own: The statement that this host signed before the run.
        others: The statements that the other parties' hosts signed.
        charge: The host's own charge.
    """

    place: RunPlace
    own: Intent
    others: Mapping[int, Intent]
    charge: GuardedCharge

    def remember(self, parties: Collection[int]) -> bool:
        """Remember the heads that the ledgers of met parties' hosts have since this run.

        A host charges a run before its party gets the certificates of others. So if its party has been met,
        its ledger has the next head. The agreement alone would not say so: a coordinator may let a party
        begin and not another, whose ledger has no such head then, and which a remembered one would accuse.
        """
        heads = {other: next_head(self.others[other].head, self.own.digest) for other in parties}
        return self.charge.guard.remember(heads, self.place.keys.all_histories(self.own.party))

    def settle(self, code: int) -> None:
        self.charge.settle(Status.ABORTED if code else Status.DONE)

    def ended_well(self, running: Running, last: PartyState) -> Step[Signed | None]:
        """Return the state after the run, with the signed statement of its end, which this host keeps, too.

        It signs nothing of a party that ended well without its outputs, or without what its gateway says of
        clients. Its owner's log says why.
        """
        guard = self.charge.guard
        exact = self.charge.event.exact
        after = Over(self.place, last)
        try:
            outputs = parse_outputs([last.lines], guard.release.program_of(guard.statistic.spec).outputs)
            signed = _signed_end(
                self.own,
                running,
                last,
                spent=(str(exact.epsilon), str(exact.delta)),
                outputs={name: list(values) for name, values in outputs.items()},
            )
        except OutputError as error:
            self.place.host.log.write(Event.FAILED, None, str(error), running.name)
            return Step(after, None)
        kept = local_host.place_of(self.place.host.directory, self.own.run)
        with suppress(OSError):  # no room for it; the coordinator gets it in any case
            write_whole(kept, json.dumps(asdict(signed)).encode())
        running.note_done(f"Party {running.party} ended well, and this host signed the result.")
        return Step(after, signed)


# Noise made ahead.


@dataclass(frozen=True)
class NoiseInputs(RunInputs[Intent]):
    """The inputs of a run that makes the joint noise of a later release on records of a domain.

    Guarantees: a piece enters the stock only after all parties' hosts have signed that their parties ended
    well; a failed piece leaves neither shares nor keys.  [test: tests/harness/hosts/test_preparation.py]

    Attributes:
        guard: The guard of the later release.
        domain: The domain of that release's records.
        noise: The noise that the release will take.
    """

    guard: Guard
    domain: RecordDomain
    noise: NoiseToMake

    def planned(self, message: Prepare, place: RunPlace) -> PlannedRun[Intent]:
        party = message.party
        return PlannedNoise(
            place,
            self,
            terms=terms_of(self.noise, place.keys.fingerprints(party)),
            counted=terms_of(self.noise, place.keys.first_fingerprints(party)),
        )


def noise_proposed(host: LocalHost, message: Preprocess) -> Fed[Intent]:
    """Take a run that makes noise ahead. Raises PolicyError, OptionError, or as `RunPlace.open`."""
    guard = Guard.of_run(host.directory, message.asked, host.coordinator)
    domain = domain_from_json(message.domain, "The domain of this noise")
    inputs = NoiseInputs(guard, domain, guard.noise_ahead(domain))
    return Fed(RunPlace.open(host, RunKind.NOISE, guard.release.model), inputs)


@dataclass(frozen=True)
class PlannedNoise(PlannedRun[Intent]):
    """A run that makes noise, whose job is known.

    Attributes:
        place: The run's directories and facts at its host.
        inputs: The noise to make, and the release for which it is.
        terms: The name of the noise with the present keys.
        counted: The name with the first keys of all parties, under which attempts are counted. So a renewal
            of keys forgets no attempt.
    """

    place: RunPlace
    inputs: NoiseInputs
    terms: str
    counted: str

    @property
    def job(self) -> Job:
        return noise_job(self.inputs.noise, shares_of(self.made_at, self.place.model.parties))

    @property
    def values(self) -> None:
        return None

    @property
    def made_at(self) -> Path:
        """The directory of the new piece, until it is kept."""
        return self.place.scratch / _PIECE

    def attempts(self) -> int:
        return self.inputs.guard.stock.next_attempt(self.counted)

    def seen(self, party: int) -> dict[str, str]:
        return self.inputs.guard.seen(self.place.keys.all_histories(party))

    def intent(self, prepared: PreparedParty, message: Agree) -> Intent:
        guard = self.inputs.guard
        guard.check_attempt(message.attempts)
        if message.attempts < self.attempts():
            raise HostUnfitError("It was told of fewer attempts to make this noise than it knows of.")
        ahead = Intent(
            nonces=message.nonces,
            party=prepared.party,
            run=prepared.run,
            started=message.started.isoformat(),
            asked=guard.asked,
            domain=self.inputs.domain.to_json(),
            source=InputSource.NOTHING_GIVEN,
            inputs={},
            uploads="",
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            compared=0,
            piece=new_name(self.terms, message.nonces),
            attempts=message.attempts,
        )
        histories = self.place.keys.all_histories(prepared.party)
        return guard.with_heads(ahead, histories, message.heads)

    def begin(
        self,
        own: Intent,
        others: Mapping[int, Intent],
        agreed: Chargeable,  # noqa: ARG002
    ) -> "BegunNoise":
        """Count the attempt, which may fool a check; no records are in the run, and nothing is charged."""
        guard = self.inputs.guard
        guard.compare_heads(own, others)
        guard.stock.begin(self.counted)
        return BegunNoise(self, own)


@dataclass(frozen=True)
class BegunNoise(Begun):
    """A run that makes noise, whose attempt has been counted.

    Attributes:
        planned: The run.
        own: The statement that this host signed before the run.
    """

    planned: PlannedNoise
    own: Intent

    def ended_well(self, running: Running, last: PartyState) -> Step[Signed | None]:
        signed = _signed_end(self.own, running, last, spent=("0", "0"), outputs={})
        running.note_done(f"Party {running.party} ended well, with noise that is not in the stock yet.")
        made = Made(self.planned.place, last, self.planned, self.own, running.process, running.owners)
        return Step(made, signed)


@dataclass(frozen=True)
class Made(Over):
    """A run whose party has made noise that is not in the stock yet.

    Attributes:
        planned: The run.
        own: The statement that this host signed before the run.
        process: The party's process, which has ended well.
        owners: The certificates of the other parties' owners, by party.
    """

    planned: PlannedNoise
    own: Intent
    process: LocalProcess
    owners: Mapping[int, str]

    NAME = State.MADE

    def steps(self) -> Sequence[Stepping]:
        return [
            Keep.leads_by(self.keep),
            GetReport.leads_by(self.report),
            Kill.leads_by(self.kill),
        ]

    def keep(self, message: Keep) -> Step[None]:
        """Take this party's noise into the stock; HostUnfitError unless all hosts signed its making."""
        check_made(self.own, host_keys.by_party(message.made), self.owners)
        self.process.keep()
        stock = self.planned.inputs.guard.stock
        record = PieceRecord(attempts=self.own.attempts)
        stock.keep(
            self.planned.terms, self.own.piece, self.planned.made_at, record, counted=self.planned.counted
        )
        said = "The noise is in the stock."
        self.place.host.log.write(Event.ANSWERED, Keep.name(), said, self.own.run)
        return Step(Over(self.place, self.last), None)


# Benchmark runs.


@dataclass(frozen=True)
class TrialInputs(RunInputs[BenchmarkIntent]):
    """The inputs of a benchmark run: made-up records, or none.

    Attributes:
        trial: The program and the facts that are measured.
        values: The file with this party's made-up inputs, or None if noise is sampled.
    """

    trial: KnownTrial
    values: Path | None

    def planned(self, message: Prepare, place: RunPlace) -> PlannedRun[BenchmarkIntent]:  # noqa: ARG002
        return PlannedTrial(self.trial, self.trial.job(), self.values)


@dataclass(frozen=True)
class ClientsOfTrial(InvitedClients[BenchmarkIntent]):
    """The clients that send made-up records to a benchmark run.

    Attributes:
        trial: The program and the facts that are measured.
    """

    trial: ReleaseTrial

    def planned(self, clients: Sending, place: RunPlace) -> RunOfClients[BenchmarkIntent]:  # noqa: ARG002
        sent = self.trial.sent(clients.certificates)
        return RunOfClients(PlannedTrial(self.trial, sent.job, None), sent.sending)


def trial_proposed(
    host: LocalHost, message: RunTrial
) -> "Fed[BenchmarkIntent] | ClientsInvited[BenchmarkIntent] | Promised":
    """Take a benchmark run.

    Raises HostUnfitError for a program that no host takes, or where a party could reach more than its run's
    files; else as the trial's `values`, or as `RunPlace.open`.
    """
    trial = message.trial
    if isinstance(trial, ProgramTrial):
        _check_program(trial)
    if isinstance(trial, ReleaseTrial) and trial.clients_send:
        return ClientsInvited(RunPlace.open(host, RunKind.TRIAL, trial.model), ClientsOfTrial(trial))
    values = trial.values(message.party)  # first, so that what is refused leaves nothing behind
    place = RunPlace.open(host, RunKind.TRIAL, trial.model)
    file = None
    try:
        if values is not None:
            file = place.scratch / "values"
            create_file(file, values)
        if isinstance(trial, ProgramTrial):
            for name in ("Schedules", "Bytecode"):
                (place.scratch / _PROGRAM / name).mkdir(mode=0o700, parents=True)
            return Promised(place, trial, file)
    except OSError:
        place.stack.close()
        raise
    return Fed(place, TrialInputs(trial, file))


def _check_program(trial: ProgramTrial) -> None:
    """Raise HostUnfitError unless this host may take a program, and shuts it off."""
    fault = trial.program.fault()
    if fault is not None:
        raise HostUnfitError(fault)
    version = engine_of(trial.model).version()
    if version != trial.compiled_by:
        raise HostUnfitError(
            f"It was offered a program that {trial.compiled_by} compiled, and has {version or 'no MP-SPDZ'}; "
            "compile with the version that all hosts have."
        )
    unprotected = missing()
    if unprotected:
        could = "; ".join(protection.value for protection in unprotected)
        raise HostUnfitError(
            f"It runs no program of a coordinator's own, as a party's process there could {could}; the page "
            "on owning a host says what this takes."
        )


@dataclass(frozen=True)
class Promised(RunState):
    """A benchmark run of a program that the owner allows, and of which files are missing.

    Attributes:
        trial: The program, and its inputs.
        values: The file with this party's integers, or None if it reads none.
        file: The number of files that are there as a whole.
        at: The number of bytes that are there of the next file.
    """

    trial: ProgramTrial
    values: Path | None
    file: int = 0
    at: int = 0

    NAME = State.PROMISED

    def steps(self) -> Sequence[Stepping]:
        return [TakeProgram.leads_by(self.take)]

    def take(self, message: TakeProgram) -> Step[None]:
        """Take the next piece. With the last one all files are what the owner allowed.

        Guarantees: no file has another name, more bytes or another content than the digest is of, and the
        schedule names these tapes alone.  [test: tests/harness/hosts/test_programs_of_others.py]

        Raises HostUnfitError for another piece, or OSError, and keeps nothing of it then.
        """
        program = self.trial.program
        if (message.file, message.at) != (self.file, self.at):
            raise HostUnfitError(
                f"It waits for byte {self.at:,} of the program's file {self.file}, and got another piece."
            )
        expected = program.files[self.file]
        path = place_of(expected, self.place.scratch / _PROGRAM)
        size = self.at + len(message.piece)
        if size > expected.size:
            raise HostUnfitError(
                f"It was sent more of {expected.name} than the {expected.size:,} bytes that its owner allows."
            )
        is_whole = size == expected.size
        if is_whole:
            before = path.read_bytes() if self.at else b""
            self._check_content(expected, before + message.piece)
        try:
            with path.open("ab") as file:
                file.write(message.piece)
        except OSError:
            with suppress(OSError):
                if self.at:
                    os.truncate(path, self.at)
                else:
                    path.unlink()
            raise
        if not is_whole:
            return Step(replace(self, at=size), None)
        if self.file + 1 < len(program.files):
            return Step(replace(self, file=self.file + 1, at=0), None)
        return Step(Fed(self.place, ProgramInputs(self.trial, self.values)), None)

    def _check_content(self, expected: ProgramFile, content: bytes) -> None:
        """Raise HostUnfitError unless a file is the one that the digest is of."""
        program = self.trial.program
        if hashlib.sha256(content).hexdigest() != expected.sha256:
            raise HostUnfitError(
                f"It was sent another {expected.name} than the one that its owner allows by its digest."
            )
        if expected is program.schedule and tapes_in(content) != [tape.name for tape in program.tapes]:
            raise HostUnfitError(f"The schedule {expected.name} names other tapes than it was offered.")


@dataclass(frozen=True)
class ProgramInputs(RunInputs[BenchmarkIntent]):
    """A program of the coordinator's, whole, and public integers.

    Attributes:
        trial: The program.
        values: The file with this party's integers, or None if it reads none.
    """

    trial: ProgramTrial
    values: Path | None

    def planned(self, message: Prepare, place: RunPlace) -> PlannedRun[BenchmarkIntent]:  # noqa: ARG002
        job = CompiledJob.of_program(self.trial.program, place.model, place.scratch / _PROGRAM)
        return PlannedTrial(self.trial, job, self.values)


@dataclass(frozen=True)
class PlannedTrial(PlannedRun[BenchmarkIntent]):
    """A benchmark run whose job is known.

    Attributes:
        trial: The program and the facts that are measured.
        made_up: The party's job on made-up inputs.
        file: The file with this party's made-up inputs, or None if the host has none for the run.
    """

    trial: Trial
    made_up: Job
    file: Path | None

    @property
    def job(self) -> Job:
        return self.made_up

    @property
    def values(self) -> Path | None:
        return self.file

    def intent(self, prepared: PreparedParty, message: Agree) -> BenchmarkIntent:
        text = json.dumps(as_json(self.trial), sort_keys=True)
        return BenchmarkIntent(
            nonces=message.nonces,
            party=prepared.party,
            run=prepared.run,
            started=message.started.isoformat(),
            trial=hashlib.sha256(text.encode()).hexdigest(),
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            run_certificate="",
        )

    def begin(
        self,
        own: BenchmarkIntent,  # noqa: ARG002
        others: Mapping[int, BenchmarkIntent],  # noqa: ARG002
        agreed: Chargeable,  # noqa: ARG002
    ) -> "BegunTrial":
        """Write nothing: no record is in a benchmark run, and it is charged nowhere."""
        return BegunTrial()


@dataclass(frozen=True)
class BegunTrial(Begun):
    """A benchmark run that has begun, of which nothing is written."""

    def ended_well(self, running: Running, last: PartyState) -> Step[Signed | None]:
        running.note_done(f"Party {running.party} of a benchmark run ended well.")
        return Step(Over(running.place, last), None)
