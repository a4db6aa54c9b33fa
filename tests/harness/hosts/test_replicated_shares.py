"""Replicated shares on hosts: a share that differs anywhere is dropped by all alike, or ends the run."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import CertificateError, FairSharesError, HostUnfitError, ShareError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.messages import Aggregate, CheckUploads, Message, ReadList, TakeList
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.hosts.signed_results import InputSource, Intent, check_agreement, sign, verify
from fairshares.harness.hosts.states import State
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.rings import RING
from fairshares.harness.pipeline.planning import Planner
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import RunContext
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.system.files import sha256_of
from fairshares.harness.uploads.envelope import BOUNDS_BYTES, SALT_BYTES
from fairshares.harness.uploads.lists import UploadReport, _read_list, write_uploads
from fairshares.harness.uploads.reasons import CHANGED, NOT_THE_SAME, SAYS
from fairshares.harness.uploads.signatures import Signed
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.spec import REPLICATED, SPLIT
from tests.support.coordinators import After, hosts_runner, make_hosts, run_of
from tests.support.envelopes import resealed
from tests.support.requests import request_of
from tests.support.running import model_parameters
from tests.support.sharing import share, to_hosts

ABLE = [model for model in MODELS.values() if model.replicated]
FORM = SPLIT.by(REPLICATED)
ROWS = 1000  # of each client
NOISE = 40  # beyond it with probability below 1e-13, as the noise's atoms end there
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10 * ROWS)
models = pytest.mark.parametrize("model", model_parameters(models=ABLE))
each_share = pytest.mark.parametrize(
    ("model", "party", "held"),
    [
        pytest.param(
            model, party, held, marks=pytest.mark.mpspdz(model.name), id=f"{model.name}-{party}-{held}"
        )
        for model in ABLE
        for party in range(model.parties)
        for held in range(model.parties - 1)
    ],
)


def client(cell: int) -> ClientRecords:
    """Return the records of a client that has as many in one cell."""
    zero = np.zeros(ROWS, dtype=np.int64)
    return ClientRecords(DOMAIN, np.array(["c"], dtype=object), zero, zero + cell // 2, zero + cell % 2)


class Site:
    """Hosts, with shares of a client in each cell. Attributes: batches: the uploads' identities, by cell."""

    def __init__(self, at: Path, model: SecurityModel) -> None:
        self.at, self.model = at, model
        self.hosts = make_hosts(at, clients=0, model=model)
        self.batches = [share(client(cell), FORM, model, at / "shares") for cell in range(4)]
        to_hosts(at / "shares", self.hosts)

    def file(self, party: int, cell: int) -> Path:
        return self.hosts[party] / "shares" / f"{self.batches[cell]}.share"

    @property
    def release(self) -> Request:
        return request_of(self.model, FORM, Fraction(1)).but(Request.population, "loans")

    def fed(self, after: dict[int, After] | None = None) -> tuple[set[str], Any]:
        """Have the hosts agree and add up; return what all took, and how many were left out, by why."""
        asked = self.release
        scratch = self.at / "scratch"
        scratch.mkdir(exist_ok=True)
        with hosts_runner(self.hosts, self.model, asked, after) as hosts:
            planner = Planner(WeightsStatistic(), asked, Account(), self.out, lambda step: None)
            context = RunContext(asked, scratch, lambda step: None, 600.0, planner)
            inputs = HostsSource(hosts.proposed).describe(context)
        return set(inputs.batches), dict(inputs.excluded)

    def run(self, after: dict[int, After] | None = None) -> list[float]:
        """Run π_RW on the hosts; return the noisy counts."""
        asked, statistic = self.release, WeightsStatistic()
        with hosts_runner(self.hosts, self.model, asked, after) as hosts:
            account = Account(population="loans")
            settings = RunSettings(self.release, timeout_s=600, account=account, hosts=hosts)
            done = run_release(statistic, HostsSource(hosts.proposed), settings, self.out, lambda step: None)
        return [float(count) for count in done.found.counts.table.ravel()]

    @property
    def out(self) -> Path:
        return self.at / "out"


Lie = Callable[[Site], After]  # of one host of the site


def changed_at(site: Site, party: int, cell: int, held: int, offset: int) -> bytes:
    """Return an envelope of which a client sealed a share otherwise. Args: offset: from its salt."""
    task, secrets = read_task(site.hosts[party] / "task.json"), site.hosts[party] / "sealing"
    before = sum(size for _, size in task.pieces(party)[:held])
    at = BOUNDS_BYTES + 32 * site.model.parties + before + offset
    return resealed(task, party, site.file(party, cell).read_bytes(), secrets, at)


@models
def test_hosts_open_what_was_shared_and_sign_it(model: SecurityModel, tmp_path: Path) -> None:
    site = Site(tmp_path, model)
    assert all(abs(count - ROWS) < NOISE for count in site.run())
    lists = [statement.ran.lists for statement, _ in verify(site.out)]
    assert all(of_host == lists[0] for of_host in lists) and len(lists[0]) == model.parties


@models
def test_a_share_changed_before_drops_that_report_at_all_hosts_alike(
    model: SecurityModel, tmp_path: Path
) -> None:
    """Each party's each share, in its salt and in its payload; whoever finds it is named."""
    site = Site(tmp_path, model)
    for party in range(model.parties):
        file = site.file(party, 2)
        whole = file.read_bytes()
        for held in range(model.parties - 1):
            for offset in (0, SALT_BYTES):
                file.write_bytes(changed_at(site, party, 2, held, offset))
                taken, left_out = site.fed()
                assert taken == {*site.batches} - {site.batches[2]}
                assert left_out == {CHANGED + SAYS.format(party=party): 1}
                file.write_bytes(whole)
    assert site.fed() == ({*site.batches}, {})


@each_share
def test_a_share_changed_after_ends_the_run(
    model: SecurityModel, party: int, held: int, tmp_path: Path
) -> None:
    """In what a host has added up, by 1 in one value: there is no result."""
    site = Site(tmp_path, model)

    def change(request: str, work: Work, answer: Any) -> Any:
        if request == "aggregate":
            values = run_of(work).inputs.values
            words = RING.from_bytes(values.read_bytes()).copy()
            words[held * DOMAIN.cells + 2] += np.uint64(1)
            values.write_bytes(RING.to_bytes(words))
        return answer

    with pytest.raises(FairSharesError):
        site.run({party: change})
    assert not site.out.exists()


@models
def test_an_equivocating_client_is_only_dropped(model: SecurityModel, tmp_path: Path) -> None:
    """Each host in turn gets a sound upload of another content: by a name of its own, and by the others'."""
    site = Site(tmp_path, model)
    other = share(client(0), FORM, model, tmp_path / "shares")
    for party, host in enumerate(site.hosts):
        own = tmp_path / "shares" / f"party-{party}" / f"{other}.share"
        file = site.file(party, 1)
        whole = file.read_bytes()
        file.unlink()
        shutil.copyfile(own, host / "shares" / own.name)
        assert site.fed() == ({*site.batches} - {site.batches[1]}, {NOT_THE_SAME: 2})
        (host / "shares" / own.name).rename(file)
        assert site.fed() == ({*site.batches} - {site.batches[1]}, {NOT_THE_SAME: 2})
        if host != site.hosts[-1]:
            file.write_bytes(whole)
    assert all(
        abs(count - true) < NOISE for count, true in zip(site.run(), (ROWS, 0, ROWS, ROWS), strict=True)
    )


@models
def test_a_file_that_changes_after_the_comparison_changes_nothing(
    model: SecurityModel, tmp_path: Path
) -> None:
    """Each party's each share: what a host listed is what it counts, also where it takes others out."""
    site = Site(tmp_path, model)
    for party in range(model.parties):
        file = site.file(party, 2)
        whole = file.read_bytes()
        for changed in [changed_at(site, party, 2, held, SALT_BYTES) for held in range(model.parties - 1)]:

            def late(request: str, _work: Work, answer: Any) -> Any:
                if request == "check_uploads":
                    file.write_bytes(changed)  # noqa: B023  # of this round
                return answer

            assert site.fed({party: late}) == ({*site.batches}, {})
            file.write_bytes(whole)
            other = (party + 1) % model.parties
            lost = site.file(other, 1).rename(tmp_path / "lost")
            assert site.fed({party: late}) == ({*site.batches} - {site.batches[1]}, {NOT_THE_SAME: 1})
            lost.rename(site.file(other, 1))
            file.write_bytes(whole)


@models
def test_hosts_charge_at_the_same_time(model: SecurityModel, tmp_path: Path) -> None:
    """A machine waits a minute for the others; to charge a million uploads takes each host a part of it."""
    all_charge = Barrier(model.parties, timeout=60)

    def meet(request: str, _work: Work, answer: Any) -> Any:
        if request == "go":
            all_charge.wait()
        return answer

    assert len(Site(tmp_path, model).run(dict.fromkeys(range(model.parties), meet))) == DOMAIN.cells


def lists(
    change: Callable[[UploadReport], UploadReport], signer: int = 1, *, counts_its_own: bool = False
) -> Lie:
    """Return a host that signs something else than it has of uploads.

    Args: change: of its list; signer: the party by whose key; counts_its_own: whether it then counts by the
    list as it was, and not by the one that it signed.
    """

    def of_site(site: Site) -> After:
        before: list[tuple[Path, bytes, Any]] = []

        def lie(request: str, work: Work, answer: Any) -> Any:
            if request == "take_list" and counts_its_own:
                own, content, honest = before[0]
                own.write_bytes(content)
                work.state = replace(run_of(work), own=honest)
            if request != "check_uploads":
                return answer
            state = run_of(work)
            own = state.list_of(state.party)
            before.append((own, own.read_bytes(), state.own))
            report = _read_list(own)
            own.unlink()
            write_uploads(change(report), own)
            said = replace(state.own, digest=sha256_of(own))
            work.state = replace(state, own=said)
            key = site.hosts[signer].joinpath(host_keys.DIRECTORY, "mp-spdz", f"P{signer}.pem")
            return sign(said, key)

        return lie

    return of_site


def answers(asked: str, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    """Return a host that answers one request otherwise."""
    return lambda _: lambda request, _work, answer: changed(answer) if request == asked else answer


# Of which party the host is, what it does, and how the run ends that the others are in.
Lied = tuple[int, Lie, type[FairSharesError], str | None]
LIES: dict[str, Lied] = {
    "complains of everything": (
        1,
        lists(lambda report: report.without([*report.sound], CHANGED)),
        ShareError,
        f"No upload is sound at every party: 4 {CHANGED} \\(says party 1 alone\\)",
    ),
    "takes another set than it signed": (
        1,
        lists(
            lambda report: replace(report, sound={*report.sound} - {min(report.sound)}), counts_its_own=True
        ),
        FairSharesError,
        None,
    ),
    "a made-up list": (
        1,
        answers("check_uploads", lambda answer: {**answer, "signature": "00"}),
        HostUnfitError,
        "What party 1 signed is not its list of uploads: a signature",
    ),
    "a list by another's key": (
        2,
        lists(lambda report: report),
        CertificateError,
        "Party 2 has another certificate",
    ),
    "another party's list": (
        2,
        lists(lambda report: replace(report, party=1), signer=2),
        ShareError,
        "does not hold one list of uploads of each",
    ),
    "a list that is none": (
        1,
        lists(lambda report: replace(report, party="1")),  # type: ignore[arg-type]
        ShareError,
        "party-1.uploads is not a party's list of uploads",
    ),
    "a number for a list": (
        1,
        answers("check_uploads", lambda answer: {**answer, "said": 5}),
        HostUnfitError,
        r"\(party 1\): its answer to 'check_uploads' is not one of this version",
    ),
    "no head": (
        1,
        answers("aggregate", lambda answer: {**answer, "head": None}),
        HostUnfitError,
        r"\(party 1\): its answer to 'aggregate' is not one of this version",
    ),
    "leaves others out than it said": (
        1,
        answers("aggregate", lambda answer: {**answer, "left_out": {CHANGED: 1}}),
        HostUnfitError,
        r"\(party 1\) has left out other uploads than",
    ),
    "agrees to nothing": (
        1,
        answers("agree", lambda answer: {}),
        HostUnfitError,
        r"\(party 1\): its answer to 'agree' is not one of this",
    ),
}


@models
def test_a_host_that_lies_ends_the_run_and_is_named(model: SecurityModel, tmp_path: Path) -> None:
    """Also one that has a list of an earlier run."""
    site, earlier = Site(tmp_path, model), list[Any]()

    def keep(request: str, _work: Work, answer: Any) -> Any:
        earlier.extend([answer] if request == "check_uploads" else [])
        return answer

    site.fed({1: keep})
    again = answers("check_uploads", lambda answer: earlier[0])
    lies: list[Lied] = [*LIES.values(), (1, again, HostUnfitError, "list of another run")]
    for party, lie, error, said in lies:
        with pytest.raises(error, match=said):
            site.run({party: lie(site)})
    assert not site.out.exists()


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({}, None),
        ({"2": "other"}, "party 1 or party 2 lies about what party 2 said"),
        ({"1": "other"}, "party 1 lies about what party 1 said"),
        ({"0": "other"}, "party 1 lies about what party 0 said"),
        ({"3": "other"}, "it was told other parties' lists than this host, or says so falsely"),
    ],
)
def test_who_may_have_said_different_things_is_named(
    lists: dict[str, str], said: str | None, tmp_path: Path
) -> None:
    """Host 0 has a list of 2, and so has 1, but not the same: 2 signed both, or 1 says what is not so."""
    hosts = make_hosts(tmp_path, clients=0)
    asked = request_of(MODELS["mpyc"], SPLIT, Fraction(1)).to_json()
    own = Intent(
        *(["0", "1", "2"], 0, "", "", asked, {}, InputSource.UPLOADS, {}, "aa", "hash", "MPyC", 0),
        {"0": "x", "1": "y", "2": "z"},
    )
    held = host_keys.pinned(hosts[0])["embedded"]
    signed = {}
    for i in (1, 2):
        other = replace(own, party=i, lists={**own.lists, **(lists if i == 1 else {})})
        signed[i] = sign(other, hosts[i] / "keys" / "embedded" / f"P{i}.pem")
    if said is None:
        check_agreement(own, signed, held)
        return
    with pytest.raises(HostUnfitError, match=said):
        check_agreement(own, signed, held)


@models
def test_hosts_add_replicated_shares_up_themselves(model: SecurityModel, tmp_path: Path) -> None:
    """Else a coordinator could give one host other sums under the same uploads, and learn from it."""
    site = Site(tmp_path, model)
    shutil.rmtree(site.hosts[0] / "shares")
    (site.hosts[0] / "aggregates").mkdir()
    (site.hosts[0] / "aggregates" / "party-0.aggregate").write_text("")
    with pytest.raises(
        ShareError, match="was added up before, and hosts compare replicated shares upload by"
    ):
        site.fed()


@models
def test_a_host_lists_its_uploads_once(model: SecurityModel, tmp_path: Path) -> None:
    """Else a coordinator could have it sign two lists, as if it lied."""
    site = Site(tmp_path, model)
    asked = site.release
    with hosts_runner(site.hosts, model, asked) as hosts:
        one = hosts.proposed.hosts.connections[0]
        nobody = Signed(said="", signature="", certificate="")
        early: list[Message[Any]] = [
            Aggregate(party=0),
            ReadList(at=0),
            TakeList(lister=1, signed=nobody, at=0, piece=""),
        ]
        for message in early:
            with pytest.raises(HostUnfitError, match=f"as {State.PROPOSED}"):
                one.ask(message)
        one.ask(CheckUploads(party=0))
        with pytest.raises(HostUnfitError, match=f"as {State.LISTED}"):
            one.ask(CheckUploads(party=0))
        with pytest.raises(HostUnfitError, match="of a party that its model does not have"):
            one.ask(TakeList(lister=model.parties, signed=nobody, at=0, piece=""))
