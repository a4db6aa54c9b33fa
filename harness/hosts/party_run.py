"""A run at one of its hosts.

The party's process makes the key of its links in its own directory. The owner's key, whose certificate other
hosts hold, certifies that key for this run (`agree`). No request brings a certificate of a party.
"""

import hashlib
import json
import math
import re
import secrets
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic

from harness.engines.base import Job, parse_outputs
from harness.engines.engine import left_out_by
from harness.engines.parties.certificates import RUN_CERTIFICATE_LASTS, check
from harness.engines.parties.handle import OWN, LocalProcess, PartyState
from harness.engines.registry import engine_of
from harness.errors import HostUnfitError
from harness.hosts import keys, local_host
from harness.hosts.guard import Guard, Uploads, once
from harness.hosts.host_log import Event, why_failed
from harness.hosts.local_host import NONCE_BYTES, LocalHost, check_directory, check_ports
from harness.hosts.messages import (
    Agree,
    Answering,
    Fields,
    GetCertificate,
    GetReport,
    Go,
    Keep,
    Kill,
    PartyEnd,
    PartyReport,
    Prepare,
    RunFacts,
    Sending,
    Start,
)
from harness.hosts.policy import read_policy
from harness.hosts.signed_results import (
    INVITED,
    NOTHING,
    BenchmarkIntent,
    Intent,
    PreparedParty,
    RunAhead,
    Statement,
    check_agreement,
    check_made,
    run_certificates,
    sign,
)
from harness.hosts.states import State
from harness.hosts.trials import Trial
from harness.inputs.record_schema import domain_from_json
from harness.pipeline.preprocessing import joint_noise_of, noise_job, terms_of
from harness.privacy.ledger.entries import next_head
from harness.privacy.ledger.populations import Status
from harness.privacy.stock import Piece, new_name, shares_of
from harness.security_models import SecurityModel
from harness.system.files import create_file, scratch_directory, write_whole
from harness.system.signals import uninterrupted
from harness.uploads.signatures import Signed
from protocols.spec import CLIENTS

MAX_SKEW_S = 60.0
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^+-]*")  # nothing that a compiler would take for an option
_MEET_S = 600.0  # for a party to meet all others; before that, no input leaves it
_NO_INPUTS = "It was asked for a run before it had any inputs."
_NO_PARTY = "It has prepared no party."
_NOT_AGREED = "It has agreed to no run that is still to begin."


class PartyRun(ABC, Generic[RunAhead]):
    """An accepted run of the party, which its host signs before it begins."""

    def __init__(self, host: LocalHost, model: SecurityModel) -> None:
        self._host, self._directory, self.model = host, host.directory, model
        self._keys = keys.RunKeys(self._directory, model)
        self._stack = host.stack.enter_context(ExitStack())
        self.nonce = secrets.token_hex(NONCE_BYTES)
        check_directory(self._directory)
        self.scratch = self._stack.enter_context(scratch_directory(self._directory))
        self._stack.enter_context(local_host.signed(self.scratch, host.coordinator))
        self.is_running = False
        self._party: LocalProcess | None = None
        self._is_started, self._is_done = False, False  # the party's process; it was let go, or killed
        self._certificate: str | None = None  # of the party's key for this run, once its process is ready
        self.intent: RunAhead | None = None
        self._port: socket.socket | None = None  # held from the agreement until the party begins
        self._held: dict[int, str] = {}  # the certificates of the other parties' owners
        self._others: dict[int, RunAhead] = {}  # signed by the other parties' hosts
        self._prepared: PreparedParty | None = None
        self._meets_by, self._alone = math.inf, False

    def handlers(self) -> list[Answering]:
        """Return the handlers of what it answers."""
        return [
            Prepare.answered_by(self.prepare),
            Start.answered_by(self.start),
            GetCertificate.answered_by(self.certificate),
            Agree.answered_by(self.agree),
            Go.answered_by(self.go),
            GetReport.answered_by(self.report),
            Kill.answered_by(self.kill),
        ]

    @property
    def reached(self) -> State:
        """How far this run is."""
        if self._party is None:
            return self.inputs_reached
        if self.is_running:
            return State.RUNNING
        if self._is_done:
            return State.OVER
        if self.intent is not None:
            return State.AGREED
        if self._certificate is not None:
            return State.READY
        return State.STARTED if self._is_started else State.PREPARED

    @property
    def inputs_reached(self) -> State:
        """How far its inputs are, before a party is prepared."""
        return State.FED

    def close(self) -> None:
        """End it, and remove its files."""
        self._stack.close()

    def prepare(self, message: Prepare) -> RunFacts:
        """Compile the run's program from this host's own sources; return facts for the other hosts.

        Guarantees: program, arguments and noise follow from the request and this host's own inputs; clients
        that send are told of the same release.  [test: tests/harness/hosts/test_agreement.py]

        Raises HostUnfitError without a free port or inputs, PolicyError, CertificateError, StockError, or as
        `Guard.job`.
        """
        once(self._party, "prepared a party")
        self._host.take_turn()
        model, party, addresses, clients = self.model, message.party, message.addresses, message.clients
        if not 0 <= party < len(addresses) == model.parties:
            raise HostUnfitError("It was asked for a run of other parties than its model has.")
        job, values = self.inputs(clients, message.piece)
        engine = engine_of(model)
        if not all(map(_ARGUMENT.fullmatch, job.arguments)):
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        self._keys.check(party)
        check_ports(self._directory, self._host.coordinator, "port", [addresses[party][1]])
        client_ports = list(clients.ports) if clients else []
        check_ports(self._directory, self._host.coordinator, "client_port", client_ports)
        prepared = engine.prepared(job, model)
        if prepared.fault_of_links is not None:
            raise HostUnfitError(prepared.fault_of_links)
        config = engine.config(prepared, party, addresses)
        if clients is not None and job.sending is not None:
            config["front"] = job.sending.front("0.0.0.0", *clients.ports, clients.seconds)
        self._party = LocalProcess(job, config, self.scratch / "party", values)
        self._stack.callback(self._end, self._host.note_ended_party)
        self._prepared = PreparedParty(
            message.run, party, prepared.program_hash, engine_version=prepared.engine_version
        )
        self._look_up(party)
        return RunFacts(
            engine_version=prepared.engine_version,
            program_hash=prepared.program_hash,
            compile_options=prepared.compile_options,
            compile_s=prepared.compile_s,
            nonce=self.nonce,
            attempts=self._attempts(),
            seen=self._seen(party),
        )

    @abstractmethod
    def inputs(self, clients: Sending | None, piece: str = "") -> tuple[Job, Path | None]:
        """Return the job, and the file with this party's inputs. Raises as `prepare`."""

    def _look_up(self, party: int) -> None:
        """Find out what the run hangs on besides its job, before the facts are told."""

    def _attempts(self) -> int:
        """Return the number of times that making the run's noise was begun."""
        return 0

    def _seen(self, party: int) -> dict[str, str]:  # noqa: ARG002
        """Return the heads of other parties' ledgers that this host has seen."""
        return {}

    def start(self, _message: Start) -> None:
        """Start the party's process."""
        self.laid_out().start()
        self._is_started = True

    def certificate(self, message: GetCertificate) -> str | None:
        """Return the certificate of the party's key for this run, None if it is not ready in time."""
        if self._certificate is None:
            self._certificate = self.laid_out().certificate(message.seconds)
        return self._certificate

    def agree(self, message: Agree) -> Signed:
        """Hold the party's port, and sign the run ahead, with the certificate of the party's key for it.

        Until the party has the port, early peers try again.

        Raises HostUnfitError if the party is not ready, its own nonce differs, or its clock by more than
        `MAX_SKEW_S`; PolicyError after too many attempts.
        """
        once(self.intent, "agreed to a run")
        party = self.laid_out().number
        if message.nonces[party : party + 1] != [self.nonce]:
            raise HostUnfitError("It was asked to agree to a run that is not the one that it prepared.")
        if self._certificate is None:
            raise HostUnfitError("It was asked to agree to a run before its party was ready.")
        started, now = message.started, datetime.now(UTC)
        if abs((started - now).total_seconds()) > MAX_SKEW_S:
            raise HostUnfitError(
                f"It was told that the run starts at {started:%FT%T%z}, and its own clock says {now:%FT%TZ}; "
                "set both clocks, by NTP for example."
            )
        own = "The certificate of its party for this run"
        check(self._certificate.encode(), self._common_name(party), own, RUN_CERTIFICATE_LASTS)
        intent = self._intent(message)
        self._port = self._stack.enter_context(socket.socket())
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("", read_policy(self._directory).port))
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # else others could listen there
        self._held = self._keys.others(party)
        self.intent = replace(intent, run_certificate=self._certificate)
        return sign(self.intent, self._keys.own(party))

    @abstractmethod
    def _intent(self, message: Agree) -> RunAhead:
        """Return the statement before the run, without the run's certificate. Raises as `agree`."""

    def go(self, message: Go) -> None:
        """Let the party begin, with the certificates that the other parties' hosts signed for this run.

        Guarantees: the party's links accept the keys that the pinned owners' keys certified for this run and
        party, and no other. No certificate comes from the coordinator.
        [test: tests/harness/hosts/test_run_certificates.py]

        Raises HostUnfitError, CertificateError, or as `check_agreement` and `Guard.compare_heads`.
        """
        party = self.laid_out()
        if self.intent is None or self._port is None or self.is_running:
            raise HostUnfitError(_NOT_AGREED)
        self._others = check_agreement(self.intent, keys.by_party(message.agreed), self._held)
        others = run_certificates(self._others, self._common_name)
        self._begins()
        self._is_done = True
        self._port.close()
        self._port = None
        self._host.stop_listening()
        with uninterrupted():  # what an interrupt ends is a run, with all that belongs to its end
            party.go(others)
            self.is_running = True
        self._meets_by = time.monotonic() + _MEET_S
        self._host.run_begins()

    @abstractmethod
    def _begins(self) -> None:
        """Record that the run begins; refuse it by raising."""

    def _common_name(self, party: int) -> str:
        return engine_of(self.model).common_name(party)

    def report(self, _message: GetReport) -> PartyReport:
        """Return the party's state, with filtered lines; nothing of one that never started."""
        return PartyReport(**asdict(self._state()))

    def _state(self) -> PartyState:
        party = self.laid_out()
        self._look()
        state = party.state() if self._is_started else PartyState()
        if not self._alone:
            return state
        alone = f"{OWN}It had not met all other parties after {_MEET_S:g} s."
        return replace(state, lines=(*state.lines, alone))

    def ended(self) -> PartyEnd | None:
        """Return the party's last state, None while it runs."""
        party = self.laid_out()
        self._look()
        if time.monotonic() > self._meets_by:
            self._meets_by = math.inf
            if len(party.met()) < self.model.parties - 1:
                self._alone = True
                party.kill()
        code = party.exit_code()
        if code is None:
            return None
        with uninterrupted():  # else what is over would not be noted, or twice
            self._is_over()
            self._note_failure()
        state = self._state()
        return PartyEnd(code=code, **asdict(state), signed=self._sign_end(state) if code == 0 else None)

    def _sign_end(self, state: PartyState) -> Signed | None:  # noqa: ARG002
        """Return what this host signs of a run whose party ended well, if anything."""
        return None

    def kill(self, _message: Kill) -> None:
        """End the party, if there is one, and with it a run that has begun."""
        why = "A party that had begun was ended, as its coordinator asked."
        self._end(lambda: self._host.log.write(Event.ENDED, Kill.name(), why))

    def _end(self, note: Callable[[], None]) -> None:
        """End the party, if there is one.

        Args:
            note: Tells the host's owner that a party that had begun would have gone on.
        """
        if self._party is None:
            return
        with uninterrupted():
            has_ended = not self.is_running or self._party.exit_code() is not None
            self._party.kill()
            self._party.close()
            self._is_done = True
            if not self.is_running:
                return
            self._is_over()
            if has_ended:
                self._note_failure()
            else:
                note()

    def _note_failure(self) -> None:
        """Tell the host's owner why the party failed that has ended, if it did."""
        code = self.laid_out().exit_code()
        if code:
            self._host.log.write(Event.FAILED, "", why_failed(code, self._state().lines))

    def _look(self) -> None:
        """Remember what is known of a running run by now; called before anything of its party is told."""

    def _is_over(self) -> None:
        """Note that the party has ended: by itself, by a request, or with the connection."""
        self.is_running = False
        self._host.expect_run()

    def laid_out(self) -> LocalProcess:
        """Return the prepared party, or raise HostUnfitError."""
        if self._party is None:
            raise HostUnfitError(_NO_PARTY)
        return self._party

    def prepared(self) -> PreparedParty:
        """Return what was prepared, or raise HostUnfitError."""
        if self._prepared is None:
            raise HostUnfitError(_NO_PARTY)
        return self._prepared


class BenchmarkRun(PartyRun[BenchmarkIntent]):
    """A run on made-up records, or none."""

    def __init__(self, host: LocalHost, party: int, trial: Trial) -> None:
        values = trial.values(party)  # first, so that what is refused leaves nothing behind
        super().__init__(host, trial.of)
        self._trial, self._values = trial, None
        if values is not None:
            self._values = self.scratch / "values"
            create_file(self._values, values)

    def inputs(self, clients: Sending | None, piece: str = "") -> tuple[Job, Path | None]:  # noqa: ARG002
        job = self._trial.job(clients.certificates if clients else ())
        if (clients is None) != (job.sending is None):
            raise HostUnfitError(_NO_INPUTS)
        return job, self._values

    def _intent(self, message: Agree) -> BenchmarkIntent:
        trial = json.dumps(asdict(self._trial), sort_keys=True)
        prepared = self.prepared()
        return BenchmarkIntent(
            nonces=message.nonces,
            party=prepared.party,
            run=prepared.run,
            started=message.started.isoformat(),
            trial=hashlib.sha256(trial.encode()).hexdigest(),
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            run_certificate="",
        )

    def _begins(self) -> None:
        """Record nothing: a benchmark run is charged nowhere."""


class SignedRun(PartyRun[Intent]):
    """A run whose end hosts sign, too."""

    def __init__(self, host: LocalHost, guard: Guard) -> None:
        super().__init__(host, guard.release.model)
        self.guard = guard

    def _seen(self, party: int) -> dict[str, str]:
        return self.guard.seen(self._keys.all_histories(party))

    def _intent(self, message: Agree) -> Intent:
        histories = self._keys.all_histories(self.laid_out().number)
        return self.guard.with_heads(self._ahead(message), histories, message.heads)

    @abstractmethod
    def _ahead(self, message: Agree) -> Intent:
        """Return the statement before the run, without heads of ledgers. Raises as `agree`."""

    def _begins(self) -> None:
        """Compare heads of ledgers, and record that the run begins. Raises as `Guard.compare_heads`."""
        assert self.intent is not None
        self.guard.compare_heads(self.intent, self._others)
        self._charge()

    @abstractmethod
    def _charge(self) -> None:
        """Write what the run's beginning costs."""

    def _signed(self, spent: tuple[str, str], outputs: dict[str, list[int]], lines: Sequence[str]) -> Signed:
        assert self.intent is not None
        party = self.laid_out()
        statement = Statement(
            ran=self.intent,
            met={str(other): text for other, text in party.met().items()},
            spent=spent,
            outputs=outputs,
            left_out=left_out_by(party.number, lines) if self.intent.source == INVITED else {},
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return sign(statement, self._keys.own(party.number))


class ReleaseRun(SignedRun):
    """A release that the owner allows."""

    def __init__(self, host: LocalHost, guard: Guard) -> None:
        super().__init__(host, guard)
        self.uploads = Uploads(host.directory, guard, self._keys, self.scratch, self.nonce)
        self._piece: Piece | None = None
        self._remembered: set[int] = set()  # parties that this one met, whose hosts' heads are written

    def handlers(self) -> list[Answering]:
        return [*super().handlers(), *self.uploads.handlers()]

    @property
    def inputs_reached(self) -> State:
        return State.FED if self.guard.release.form.path is CLIENTS else self.uploads.reached

    def inputs(self, clients: Sending | None, piece: str = "") -> tuple[Job, Path | None]:
        guard, uploads = self.guard, self.uploads
        inputs = guard.sent(clients.terms, clients.certificates) if clients else uploads.inputs
        if inputs is None or (clients is None) == (guard.release.form.path is CLIENTS):
            raise HostUnfitError(_NO_INPUTS)
        job = guard.job(inputs)
        if guard.release.randomness.offline:
            place = self.scratch / "piece"
            self._piece = guard.stock.take(uploads.terms, self.model.parties, place, only=piece)
            job = replace(job, pieces=self._piece.parties)
            guard.takes(self._piece)
        return job, uploads.values

    def _ahead(self, message: Agree) -> Intent:
        ahead = self.guard.intent(
            self.prepared(),
            nonces=message.nonces,
            started=message.started.isoformat(),
            source=self.uploads.source or INVITED,
            heard=self.uploads.heard,
        )
        if self._piece is None:
            return ahead
        return replace(ahead, piece=self._piece.name, attempts=self._piece.attempts)

    def _charge(self) -> None:
        assert self.intent is not None
        self.guard.charge(self.intent.digest)

    def _look(self) -> None:
        """Remember the heads that the ledgers of met parties' hosts have since this run.

        A host charges a run before its party gets the certificates of others. So if its party has been met,
        its ledger has the next head. The agreement alone would not say so: a coordinator may let a party
        begin and not another, whose ledger has no such head then, and which a remembered one would accuse.

        Guarantees: nothing that a party prints leaves its host before the heads of all hosts whose parties it
        has met are remembered, however the run ends.
        [test: tests/harness/hosts/test_restored_hosts.py]
        """
        if not self.is_running or len(self._remembered) == self.model.parties - 1:
            return
        event, party = self.guard.event, self.laid_out()
        new = {*party.met()} - self._remembered
        if event is None or not new:
            return
        heads = {other: next_head(self._others[other].head, event.run) for other in new}
        if self.guard.remember(heads, self._keys.all_histories(party.number)):
            self._remembered |= new

    def _is_over(self) -> None:
        """Remember others' heads, and write what became of the charged run."""
        self._look()
        self.guard.settle(Status.ABORTED if self.laid_out().exit_code() else Status.DONE)
        super()._is_over()

    def _sign_end(self, state: PartyState) -> Signed:
        """Return the signed statement of the run's end, which this host keeps, too."""
        event = self.guard.event
        assert event is not None
        spec = self.guard.statistic.spec
        outputs = parse_outputs([state.lines], self.guard.release.program_of(spec).outputs)
        signed = self._signed(
            (str(event.exact.epsilon), str(event.exact.delta)),
            {name: list(values) for name, values in outputs.items()},
            state.lines,
        )
        place = local_host.place_of(self._directory, self.prepared().run)
        with suppress(OSError):  # no room for it; the coordinator gets it in any case
            write_whole(place, json.dumps(asdict(signed)).encode())
        return signed


class Preparation(SignedRun):
    """A run that makes the joint noise of a later release on records of `domain`.

    Guarantees: a piece enters the stock only after all parties' hosts have signed that their parties ended
    well; a failed piece leaves neither shares nor keys.  [test: tests/harness/hosts/test_preparation.py]
    """

    def __init__(self, host: LocalHost, guard: Guard, domain: Fields) -> None:
        self._domain = domain_from_json(domain, "The domain of this noise")
        self._noise = joint_noise_of(guard.check_noise(self._domain))
        super().__init__(host, guard)
        self._terms = ""  # of the noise and the present keys
        self._counted = ""  # of the noise and the first keys, so that renewed keys forget no attempt
        self._ended_well = False

    def handlers(self) -> list[Answering]:
        return [*super().handlers(), Keep.answered_by(self.keep)]

    def inputs(self, clients: Sending | None, piece: str = "") -> tuple[Job, Path | None]:  # noqa: ARG002
        return noise_job(self._noise, shares_of(self.scratch / "piece", self.model.parties)), None

    def _look_up(self, party: int) -> None:
        self._terms = terms_of(self._noise, self._keys.fingerprints(party))
        self._counted = terms_of(self._noise, self._keys.first_fingerprints(party))

    def _attempts(self) -> int:
        return self.guard.stock.next_attempt(self._counted)

    def _ahead(self, message: Agree) -> Intent:
        self.guard.check_attempt(message.attempts)
        if message.attempts < self._attempts():
            raise HostUnfitError("It was told of fewer attempts to make this noise than it knows of.")
        prepared = self.prepared()
        return Intent(
            nonces=message.nonces,
            party=prepared.party,
            run=prepared.run,
            started=message.started.isoformat(),
            asked=self.guard.asked,
            domain=self._domain.to_json(),
            source=NOTHING,
            inputs={},
            uploads="",
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            compared=0,
            piece=new_name(self._terms, message.nonces),
            attempts=message.attempts,
        )

    def _charge(self) -> None:
        self.guard.stock.begin(self._counted)

    def _sign_end(self, state: PartyState) -> Signed:
        signed = self._signed(("0", "0"), {}, state.lines)
        self._ended_well = True
        return signed

    def keep(self, message: Keep) -> None:
        """Take this party's noise into the stock; HostUnfitError unless all hosts signed its making."""
        if self.intent is None or not self._ended_well:
            raise HostUnfitError("It was asked to keep noise that its party did not make.")
        check_made(self.intent, keys.by_party(message.made), self._held)
        self._ended_well = False
        self.laid_out().keep()
        about = {"attempts": self.intent.attempts}
        piece = self.scratch / "piece"
        self.guard.stock.keep(self._terms, self.intent.piece, piece, about, counted=self._counted)
