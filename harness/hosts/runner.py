"""Releases at hosts, and noise made ahead there, as the coordinator runs them.

A host gets the request, the other hosts' signatures, and certificates of clients that send, and returns
public facts. Shares go from clients to the hosts, past this machine.

The coordinator goes from value to value: `HostsBackend` before it is connected, then `ConnectedHosts`, then
`ProposedRelease`, which `HostsSource` and `HostsRunner` hold in common.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from fairshares.harness.charged import Permission
from fairshares.harness.computation import Preprocessing
from fairshares.harness.engines.execution import (
    Backend,
    Conditions,
    EngineResult,
    PrivateJob,
    Progress,
    ReadyParties,
    Runner,
)
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.errors import FairSharesError, HostUnfitError, StockError, named
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.fleet import ask_all, at_once, connected, fit_hosts
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import (
    Aggregate,
    CheckUploads,
    Forget,
    Keep,
    LeaveTurn,
    Preprocess,
    Propose,
    ReadList,
    TakeList,
)
from fairshares.harness.hosts.remote_parties import (
    AgreedParties,
    ConnectedHosts,
    by_number,
    check_not_emulated,
    refusal_at_hosts,
)
from fairshares.harness.hosts.signed_results import check_ended, noise_of, verify, what_hosts_ran
from fairshares.harness.pipeline.preprocessing import MadeNoise, MadePiece, joint_noise_of, noise_job
from fairshares.harness.pipeline.release import of_noise
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import InvitedSource, PartyInputs, RunContext, Source, feed_heads
from fairshares.harness.releases.base import Answer, PreparedRelease, Statistic
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.result_files import check_new
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.spec import InputForm, ProtocolSpec

R = TypeVar("R", bound=Answer)

_LISTING_S = 3600.0  # the time for all of a host's list of uploads


@dataclass(frozen=True)
class HostsBackend(Backend):
    """The hosts of a model's parties, to which this machine is not connected.

    Attributes:
        hosts: The hosts, in the parties' order.
        model: The security model.
    """

    hosts: Sequence[Host]
    model: SecurityModel

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        return refusal_at_hosts(self.hosts, spec, model, form)

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[ConnectedHosts]:
        """Yield the hosts with a connection to each, if all of them are fit.

        Raises:
            HostUnreachableError: This machine does not reach a host.
            HostUnfitError: Hosts are unfit; the error has all faults.
        """
        with connected(self.hosts, progress) as connections:
            self.check_fit(connections, progress)
            yield ConnectedHosts(self.model, connections)

    def check_fit(self, connections: Sequence[HostConnection], progress: Progress) -> None:
        """Have hosts take their turns for a run; HostUnfitError, with all faults, if some are unfit."""
        fit_hosts(connections, self.model, progress, " No party was started.")


class HostLinks:
    """The connections to hosts for runs one after another: new ones for each, or ones that stay between runs.

    They stay in a `with` block, and are closed after it. After a block within another one they stay. Between
    runs no host keeps its turn for them, so that others may use it, and each next run asks again whether the
    host is fit, and its owner's policy.

    Guarantees: a run that fails leaves no connection, so that nothing of it is in the next one. A host that
    went away meanwhile is connected to again.  [test: tests/harness/hosts/test_turns.py]

    Args:
        backend: The hosts.
    """

    def __init__(self, backend: HostsBackend) -> None:
        self._backend = backend
        self._blocks = 0  # how many `with` blocks are open, one in another
        self._open = ExitStack()
        self._kept: ConnectedHosts | None = None

    def __enter__(self) -> Self:
        """Have connections stay between the runs of the block."""
        self._blocks += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections, unless another block is around this one."""
        self._blocks -= 1
        if not self._blocks:
            self._close()

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[ConnectedHosts]:
        """Yield the hosts with a connection to each, if all of them are fit; else as the backend's."""
        try:
            hosts = self._fit(progress)
            yield hosts
        except BaseException:
            self._close()
            raise
        if not self._blocks or not _left(hosts):
            self._close()

    def _fit(self, progress: Progress) -> ConnectedHosts:
        """Return connected hosts that are fit: by the connections that are there, or by new ones."""
        if self._kept is not None:
            progress("connect")
            connections = self._kept.connections
            try:
                self._backend.check_fit(connections, progress)
            except HostUnfitError:
                if not any(connection.lost for connection in connections):
                    raise
            else:
                return self._kept
            self._close()
        self._kept = self._open.enter_context(self._backend.connected(progress))
        return self._kept

    def _close(self) -> None:
        self._kept = None
        self._open.close()


def _left(hosts: ConnectedHosts) -> bool:
    """Have all hosts let others have their turns; return whether all did."""
    try:
        hosts.ask_each(LeaveTurn())
    except FairSharesError:
        return False
    return True


@dataclass(frozen=True)
class ProposedRelease:
    """A release that all hosts have accepted, and of which they have done nothing yet.

    Attributes:
        hosts: The hosts.
        request: The release that is asked for.
    """

    hosts: ConnectedHosts
    request: Request


def propose(hosts: ConnectedHosts, request: Request) -> ProposedRelease:
    """Propose a release to each host, and return it once all have accepted it.

    Raises:
        PolicyError: A host's policy refuses it.
        HostUnfitError: A host cannot take part.
    """
    hosts.ask_each(Propose(asked=request.to_json()))
    return ProposedRelease(hosts, request)


@dataclass(frozen=True)
class HostsSource(Source):
    """The hosts' uploads, or an aggregate of them, which hosts list and add up.

    Attributes:
        proposed: The release that takes them.
    """

    proposed: ProposedRelease

    def describe(self, run: RunContext) -> PartyInputs:
        """Have each host aggregate its party's shares; return the public facts about them.

        Before, the hosts exchange signed lists of the uploads that are sound and allowed. From these lists
        each host derives the uploads that all of them have.

        Raises:
            ShareError: The shares do not go together.
            StockError: The run takes noise made ahead, and no piece is at all hosts.
        """
        run.progress("aggregate")
        hosts = self.proposed.hosts
        _list_uploads(hosts.connections)
        aggregates = at_once(
            lambda connection: connection.ask(Aggregate(party=connection.host.party)), hosts.connections
        )
        heads: list[Path] = []
        for party, aggregate in enumerate(aggregates):
            head = run.scratch / f"party-{party}.head"
            head.write_text(aggregate.head)
            heads.append(head)
        hosts.check_same([aggregate.left_out for aggregate in aggregates], "left out other uploads")
        piece = self._common_piece([aggregate.pieces for aggregate in aggregates])
        sizes = tuple(aggregate.bytes for aggregate in aggregates)
        inputs = feed_heads(heads, run.release.form, hosts.model, sizes)
        return replace(
            inputs,
            excluded=aggregates[0].left_out,
            policies=None,  # hosts apply clients' policies themselves
            piece_at_hosts=piece,
        )

    def _common_piece(self, pieces_of_hosts: Sequence[Sequence[str]]) -> str | None:
        """Return the first name of a piece of noise that all hosts have, None if there is none.

        Args:
            pieces_of_hosts: The names of the pieces that each host has for this release, by party.

        Raises:
            StockError: There is none, and the run takes noise made ahead.
        """
        at_all_hosts = set(pieces_of_hosts[0])
        for pieces in pieces_of_hosts[1:]:
            at_all_hosts.intersection_update(pieces)
        if at_all_hosts:
            return min(at_all_hosts)
        if self.proposed.request.randomness.offline:
            numbers: list[str] = []
            for host, pieces in zip(self.proposed.hosts.hosts, pieces_of_hosts, strict=True):
                numbers.append(f"{host.name} {len(pieces)}")
            raise StockError(
                f"For this release no piece of noise is at all hosts ({', '.join(numbers)}). Make some "
                f"beforehand by {named('preprocess')}, or leave out {named('offline')}."
            )
        return None


def _list_uploads(connections: Sequence[HostConnection]) -> None:
    """Have each host list its uploads, and hand each list to the other hosts.

    A host that has an aggregate has no list. Its owner made the aggregate of uploads on which the parties had
    agreed.
    """
    answers = at_once(
        lambda connection: connection.ask(CheckUploads(party=connection.host.party)), connections
    )
    lists = [answer for answer in answers if answer is not None]
    if len(lists) < len(answers):
        return
    for lister, signed_list in zip(connections, lists, strict=True):
        others = [connection for connection in connections if connection is not lister]
        _pass_on(lister, signed_list, others)


def _pass_on(lister: HostConnection, signed: Signed, others: Sequence[HostConnection]) -> None:
    """Hand a host's list of uploads to the others, piece by piece, until the list or the time ends."""
    deadline = time.monotonic() + _LISTING_S
    offset = 0
    while time.monotonic() < deadline:
        piece = lister.ask(ReadList(at=offset))
        if not piece:
            return
        message = TakeList(lister=lister.host.party, signed=signed, at=offset, piece=piece)
        ask_all(others, message)
        offset += len(piece)


@dataclass(frozen=True)
class HostsRunner(Runner):
    """Runs a proposed release at its hosts, which sign the run before it begins, and its end.

    Hosts run what was proposed to them, on inputs of their own. So a job that they are to prepare is one that
    they work out themselves, and each host says which one it has worked out.

    Guarantees: this machine receives and writes no secret.  [test: tests/commands/test_hosts_run.py]

    Attributes:
        proposed: The release.
    """

    proposed: ProposedRelease

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        return refusal_at_hosts(self.proposed.hosts.hosts, spec, model, form)

    @contextmanager
    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        conditions: Conditions,
    ) -> Iterator[ReadyParties]:
        """Have hosts prepare the release that was proposed to them, each in a directory of its own.

        In all other respects it is `Runner.prepare`.

        Raises HostUnfitError if a host has prepared another job than this one.
        """
        check_not_emulated(conditions.network)
        hosts = self.proposed.hosts
        piece = job.piece_at_hosts
        with hosts.agreed_parties(job, conditions.timeout_s, conditions.progress, piece) as parties:
            yield _ReadyAtHosts(parties)

    def finish(self, result: EngineResult, results: Path) -> None:
        """Check a release's results against what hosts signed, and let these forget them.

        Guarantees: a release writes only what `verify` accepts.
        [test: tests/harness/hosts/test_hostile_hosts.py]

        Raises SignatureError, as `verify`; the hosts keep what they signed then, for `hosts.collect`.
        """
        signers = [fingerprint(statement.certificate.encode()) for statement in result.signed]
        first, _ = verify(results, signers)[0]
        self.proposed.hosts.ask_each(Forget(run=first.ran.run))


class _ReadyAtHosts(ReadyParties):
    """Parties at hosts, which sign what the run reveals."""

    def __init__(self, parties: AgreedParties) -> None:
        self._parties = parties

    def _finish(self, permission: Permission) -> EngineResult:
        return signed_result(self._parties, permission)


def signed_result(parties: AgreedParties, permission: Permission) -> EngineResult:
    """Let parties at hosts go, and return what they revealed, with what each host signed of it.

    Raises as `AgreedParties.finish`; HostUnfitError if a host signed nothing, or something else.
    """
    result = parties.finish(permission)
    names = [host.name for host in parties.hosts]
    agreed = [parties.agreed[party] for party in range(len(names))]
    ended = parties.signed_ends()
    ran = check_ended(names, agreed, ended, result.outputs).ran
    return replace(
        result,
        signed=tuple(statement for statement in ended if statement is not None),
        hosts=what_hosts_ran(ran),
        preprocessing=noise_of(ran),
    )


def run_at_hosts(
    statistic: Statistic[R],
    hosts: HostsBackend,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    *,
    sent: InvitedSource | None = None,
) -> Run[R]:
    """Run a release at hosts, on their uploads or on what invited clients send to them.

    Hosts get the population that the run is charged to here, and charge their own ledgers by that name.

    Args:
        statistic: The release's statistic.
        hosts: The hosts.
        settings: The settings of the release, without the hosts that run it.
        out: A new directory for the results.
        progress: A function that is told of each step.
        sent: The invited clients; None for the hosts' uploads.

    Raises:
        OptionError: The directory of results is there.
        HostUnreachableError: This machine does not reach a host.
        HostUnfitError: Hosts are unfit, or cannot take part.
        PolicyError: A host's policy refuses the release.
        FairSharesError: As by `run_release`.
    """
    check_new(out)  # before hosts are involved
    request = settings.release.but(Request.population, settings.account.population)
    with hosts.connected(progress) as connected:
        proposed = propose(connected, request)
        at_hosts = replace(settings, release=request, hosts=HostsRunner(proposed))
        source = HostsSource(proposed) if sent is None else sent
        return run_release(statistic, source, at_hosts, out, progress)


def make_noise_at_hosts(hosts: HostsBackend, call: ReleaseCall, runs: int, progress: Progress) -> MadeNoise:
    """Have hosts make the noise of so many runs of a release, of which each keeps its part.

    Raises OptionError as `of_noise`, or as `HostsBackend.connected` and `preprocess`.
    """
    with hosts.connected(progress) as connected:
        pieces = preprocess(connected, of_noise(call, hosts), runs, call.where.timeout, progress)
    return MadeNoise("each host's directory", pieces)


def preprocess(
    hosts: ConnectedHosts,
    prepared: PreparedRelease[Answer],
    runs: int,
    timeout_s: float,
    progress: Progress,
) -> list[MadePiece]:
    """Have hosts make the noise of so many runs of a release ahead.

    Each host keeps its part of a piece once all hosts have signed that their parties ended well. After an
    error, the pieces that were finished stay.
    """
    message = Preprocess(asked=prepared.release.to_json(), domain=prepared.domain.to_json())
    job = noise_job(joint_noise_of(prepared), [Path()] * hosts.model.parties)
    pieces: list[MadePiece] = []
    for number in range(runs):
        progress(f"piece {number + 1}")
        hosts.ask_each(message)
        with hosts.agreed_parties(job, timeout_s, progress) as parties:
            result = signed_result(parties, job)
        noise = noise_made(result)
        hosts.ask_each(Keep(made=by_number(dict(enumerate(result.signed)))))
        pieces.append(MadePiece.by(result, noise.attempts, noise.piece))
    return pieces


def noise_made(result: EngineResult) -> Preprocessing:
    """Return the statements that hosts signed of the noise they made; HostUnfitError without any."""
    if result.preprocessing is None:
        raise HostUnfitError(
            "What the hosts signed names no piece of noise, although they made one, so it is not kept; all "
            "hosts need the same version of FairShares as this machine."
        )
    return result.preprocessing
