"""What a host's agent does not do, whoever asks it; which uploads it takes; what it cleans up."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.errors import HostUnfitError, PolicyError, ShareError, UsedUploadsError
from fairshares.harness.hosts import host_log, listed_uploads, local_host, wire
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.listed_uploads import CHECKPOINT
from fairshares.harness.hosts.messages import (
    Aggregate,
    Check,
    CheckUploads,
    Clean,
    GetReport,
    Kind,
    Listen,
    Propose,
    Removed,
    Start,
    TakeList,
)
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE, first_policy, write_policy
from fairshares.harness.hosts.states import State
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.system.files import PREFIX
from fairshares.harness.system.processes import birth
from fairshares.harness.uploads import counting
from fairshares.harness.uploads.lists import LONGEST_LIST
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.reasons import UNCOVERED, UNREADABLE, WRONG_SIZE
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.spec import SLOTS, SPLIT
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    MODEL,
    RULE,
    Coordinator,
    Refused,
    agents,
    answered,
    asked,
    let_go,
    listed,
    make_hosts,
    ran,
    records,
    run_of,
    spent,
    to_go,
    to_prepare,
    write_rules,
)
from tests.support.envelopes import counts, left_out
from tests.support.sharing import allowing, share, to_hosts, trial

DEFAULT = first_policy([MODEL.name])


def make_host(directory: Path) -> None:
    """Make a host's directory, with the default policy."""
    directory.mkdir(mode=0o700)
    write_policy(directory, DEFAULT)


OF_SLOTS = WeightsRequest(epsilon=1, security="mpyc", privacy_unit="client").to_json()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    make_host(tmp_path / "host")
    with ExitStack() as stack:
        made = Work(tmp_path / "host", stack)
        made.propose(Propose(asked=OF_SLOTS))
        yield made


CAPPED = RecordDomain(("a", "b"), ("0", "1"), 10, cap=Cap(2))


def hosts_with_uploads(directory: Path, uploads: int) -> tuple[list[Path], list[str]]:
    """Return hosts that have their shares of uploads without records, and the uploads' identities."""
    hosts, none = make_hosts(directory, ANY_PORT + DEFAULT, clients=0), np.array([], dtype=np.int64)
    records = ClientRecords(CAPPED, np.array(["c"], dtype=object), none, none, none)
    identities = [share(records, SLOTS, MODEL, directory / "shares") for _ in range(uploads)]
    to_hosts(directory / "shares", hosts)
    return hosts, identities


def test_requests_out_of_order_are_refused(tmp_path: Path, work: Work) -> None:
    for message in (GetReport(), Start(), to_go({}), Aggregate(party=0)):
        with pytest.raises(HostUnfitError, match=f"as {State.PROPOSED}; nothing was changed"):
            answered(work, message)
    with ExitStack() as stack:
        unasked = Work(tmp_path / "other", stack)
        assert not {"check_uploads", "aggregate", "prepare"} & unasked.handlers.keys()
    assert not (tmp_path / "other").exists()


def test_uploads_that_are_not_taken_are_left_out(tmp_path: Path) -> None:
    """A host judges its own; which of the sound ones stay out, follows at each from all hosts' lists."""
    hosts, (accepted, left, bad) = hosts_with_uploads(tmp_path, 3)
    (hosts[0] / "shares" / f"{bad}.share").write_text("?")
    (hosts[1] / "shares" / f"{left}.share").unlink()

    def proposed(host: Path, stack: ExitStack) -> Coordinator:
        coordinator = Coordinator(host, stack)
        coordinator.work.propose(Propose(asked=OF_SLOTS))
        return coordinator

    with ExitStack() as stack:
        report = listed(proposed(hosts[0], stack).work)
        assert report.sound == {accepted, left} and left_out(report.unsound) == {bad: WRONG_SIZE}
        assert report.task == trial(CAPPED, SLOTS, MODEL, tmp_path / "shares").name
    for i, host in enumerate(hosts):
        with ExitStack() as stack:
            coordinator = proposed(host, stack)
            coordinator.tell(hosts, OF_SLOTS, i)
            aggregated = answered(coordinator.work, Aggregate(party=i))
            _, *identities = aggregated.head.splitlines()
            assert identities == ([accepted] if i == 0 else [])  # a million are 65 MB, once is enough
    (hosts[0] / "shares").rename(hosts[0] / "shares-before")
    (hosts[0] / "aggregates").mkdir()
    (hosts[0] / "aggregates" / "party-0.aggregate").write_text("")
    with ExitStack() as stack:  # parties agreed before
        assert answered(proposed(hosts[0], stack).work, CheckUploads(party=0)) is None


def test_shares_are_added_up_once_by_what_all_hosts_said(tmp_path: Path) -> None:
    """Whatever a coordinator does once hosts know all lists, they take what these give, or nothing."""
    hosts, _ = hosts_with_uploads(tmp_path, 1)
    for host in hosts[1:]:
        shutil.rmtree(host / "shares")
        (host / "shares").mkdir()
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.work.propose(Propose(asked=OF_SLOTS))
        coordinator.tell(hosts, OF_SLOTS)
        before = coordinator.work.state
        for _ in range(2):
            with pytest.raises(ShareError, match="No upload is sound at every party"):
                answered(coordinator.work, Aggregate(party=0))
        assert coordinator.work.state is before


def test_hosts_count_uploads_of_one_task(tmp_path: Path) -> None:
    """Else a party's owner could have a run of uploads whose clients agreed to something else."""
    hosts = make_hosts(tmp_path)
    other = replace(trial(DOMAIN, SPLIT, MODEL, tmp_path / "shares"), least_uploads=2)
    (hosts[1] / "task.json").write_bytes(other.text)
    with ExitStack() as stack, pytest.raises(ShareError, match="Party 1 lists uploads of task"):
        Coordinator(hosts[0], stack).aggregated(asked())


def test_a_hosts_policy_names_the_tasks_whose_uploads_count(tmp_path: Path) -> None:
    """By their digest, so that a task that somebody exchanged is none of them; of aggregates, too."""
    hosts, shares = make_hosts(tmp_path), tmp_path / "shares"
    task = trial(DOMAIN, SPLIT, MODEL, shares)
    write_rules(hosts[0], f'{RULE}upload_tasks = ["{"0" * 64}"]\n')
    said = f"names other tasks for population 'loans' than {task.name}"
    with ExitStack() as stack, pytest.raises(PolicyError, match=said):
        Coordinator(hosts[0], stack).aggregated(asked())
    write_rules(hosts[0], f'{RULE}upload_tasks = ["{"0" * 64}", "{task.name}"]\n')
    with ExitStack() as stack:
        assert Coordinator(hosts[0], stack).aggregated(asked()).bytes
    (hosts[0] / "aggregates").mkdir()
    counts(task, shares, shares=shares)[0].write(hosts[0] / "aggregates" / "party-0.aggregate", {})
    (hosts[0] / "shares").rename(hosts[0] / "elsewhere")
    for digits, error in (("0" * 64, said), (task.name, "")):
        write_rules(hosts[0], f'{RULE}upload_tasks = ["{digits}"]\n')
        with ExitStack() as stack, pytest.raises(PolicyError, match=error) if error else nullcontext():
            work = Coordinator(hosts[0], stack).work
            work.propose(Propose(asked=asked()))
            assert answered(work, CheckUploads(party=0)) is None
            answered(work, Aggregate(party=0))
    write_rules(hosts[0], f'{RULE}upload_tasks = ["{task.name[:16]}"]\n')
    with ExitStack() as stack, pytest.raises(PolicyError, match="must be names of tasks, of 64"):
        Coordinator(hosts[0], stack).work.propose(Propose(asked=asked()))


def test_a_run_has_at_least_as_many_uploads_as_the_task_says(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path, clients=0)
    trial(DOMAIN, SPLIT, MODEL, tmp_path / "shares", least=3)
    for _ in range(2):
        share(records(), SPLIT, MODEL, tmp_path / "shares")
    to_hosts(tmp_path / "shares", hosts)
    with (
        ExitStack() as stack,
        pytest.raises(ShareError, match=r"2 uploads can be .* has 3"),
    ):
        Coordinator(hosts[0], stack).aggregated(asked())


_RUN: dict[str, Any] = {"do": "prepare", "run": "0" * 32, "party": 0}
REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"do": ["check"]},
    {"do": "check"},
    {"do": "nonsense"},
    {"do": "listen", "port": True},
    {"do": "listen", "port": "1"},
    {"do": "reach", "others": [["127.0.0.1", 1.0, "x"]]},
    {"do": "setup", "party": 0, "renew": 1},
    {"do": "check_uploads", "party": True},
    {"do": "check_uploads", "party": 0, "rules": {}},
    {"do": "pin", "party": 0, "certificates": {"mpyc": {"x": ""}}},
    {**_RUN, "addresses": [], "clients": {"terms": {}}},
    {**_RUN, "protocol": "x", "addresses": [["127.0.0.1", 1]] * 3},
    {**_RUN, "addresses": [["127.0.0.1", 1]] * 3},
    {"do": "propose"},
    {"do": "propose", "asked": {"task": "weights"}},
    {"do": "put_file", "name": "0a.share", "bytes": 5},
    {"do": "certificate", "seconds": "1"},
    {"do": "kill", "more": 1},
)


@pytest.mark.parametrize("role", ["agent", "setup"])
def test_an_agent_that_is_ended_ends_in_an_orderly_way(role: str, tmp_path: Path) -> None:
    """Whatever its threads wait for meanwhile: its exit code says that it was ended, not that it failed."""
    make_host(tmp_path / "host")
    with subprocess.Popen(
        [sys.executable, "-m", f"fairshares.harness.hosts.{role}", str(tmp_path / "host")],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        while wire.decode(agent.stdout.readline()) is None:
            pass
        agent.terminate()
        assert (agent.communicate()[1], agent.returncode) == (b"", 1)


def test_an_agent_refuses_what_it_does_not_know_and_removes_what_it_holds_when_it_hears_no_more(
    tmp_path: Path,
) -> None:
    make_host(tmp_path / "host")
    with agents([tmp_path / "host"]) as (agent,):
        for request in REQUESTS:
            agent.write(wire.encode(request))
            with pytest.raises(Refused) as refused:
                agent.answer()
            assert refused.value.kind in ("HostUnfitError", "OptionError", "RecordDomainError"), request
        agent.ask("propose", asked=OF_SLOTS)
        assert list((tmp_path / "host").glob(PREFIX + "*"))
    assert agent.process.returncode == 1
    assert {path.name for path in (tmp_path / "host").iterdir()} == {
        POLICY_FILE,
        local_host.TURN,
        host_log.LOG_FILE,
    }


def test_no_other_user_can_keep_a_host_from_its_turn(tmp_path: Path) -> None:
    """Though others may read its directory, and so lock it: they cannot open what runs lock."""
    make_host(tmp_path / "host")
    (tmp_path / "host").chmod(0o755)
    reading = os.open(tmp_path / "host", os.O_RDONLY)
    fcntl.flock(reading, fcntl.LOCK_EX)  # as any user can whom a directory lets read
    with ExitStack() as stack:
        Work(tmp_path / "host", stack).propose(Propose(asked=OF_SLOTS))
        with ExitStack() as other, pytest.raises(HostUnfitError, match="Another run is under way on it"):
            Work(tmp_path / "host", other).propose(Propose(asked=OF_SLOTS))
    os.close(reading)
    turn = tmp_path / "host" / local_host.TURN
    assert turn.stat().st_mode & 0o777 == 0o600
    turn.chmod(0o640)
    with (
        ExitStack() as stack,
        pytest.raises(HostUnfitError, match=rf"Others can open .* by chmod 600 {turn}"),
    ):
        Work(tmp_path / "host", stack).propose(Propose(asked=OF_SLOTS))


def test_cleaning_ends_other_agents_and_removes_what_is_left(work: Work, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (own,) = host.glob(f"{PREFIX}*")
    left = host / f"{PREFIX}left"
    left.mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (left / "agent").write_text(f"{other.pid} {birth(other.pid)} alice")
        local_host.place_of(host, "0" * 32).write_text('{"ended": "now"}')
        assert work.clean(Clean()) == Removed(processes=1, directories=1, records=1)
    kept = {own.name, "results", "agent", local_host.TURN, POLICY_FILE, host_log.LOG_FILE}
    assert {path.name for path in host.iterdir()} == kept
    assert not list((host / "results").iterdir())


def test_a_number_that_another_process_has_got_is_left_alone(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "agent").write_text(f"{os.getpid()} 1 alice")  # we did not begin with the kernel
    assert local_host.clean(tmp_path, []) == Removed(processes=0, directories=1, records=0)


def test_a_turn_without_a_run_ends_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever may start runs could keep a host for good. A run that is under way does."""
    ended, waits = threading.Event(), list[float]()

    class Timer(threading.Timer):
        def __init__(self, seconds: float, *arguments: Any) -> None:
            waits.append(seconds)
            super().__init__(0.0, *arguments)

    monkeypatch.setattr(local_host, "ContextTimer", Timer)
    monkeypatch.setattr(os, "kill", lambda *asked: ended.set() if asked == (os.getpid(), SIGTERM) else None)
    (host, *_) = make_hosts(tmp_path, clients=0)
    with ExitStack() as stack:
        Coordinator(host, stack).work.host.listen(Listen(port=0))
        assert ended.wait(600) and waits == [3600.0, 300.0]  # and then to be gone
        with ExitStack() as other:
            said = (
                Coordinator(host, other)
                .work.host.check(Check(party=0, security="mpyc", port=0, client_ports=[]))
                .port
            )
        assert f"on it (process {os.getpid()}, for a key without a name); wait" in (said or "")


ALLOWED = allowing(("weights",), "1", "1/1024", PrivacyUnit.RECORD)


def test_a_starter_needs_inputs_of_the_hosts_own(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[0], stack).work
    work.propose(Propose(asked=asked()))
    with pytest.raises(HostUnfitError, match=f"as {State.PROPOSED}"):
        answered(work, to_prepare(0))
    shutil.rmtree(hosts[0] / "sealing")
    shutil.copytree(hosts[1] / "sealing", hosts[0] / "sealing")
    with pytest.raises(ShareError, match="holds no key of party 0"):
        answered(work, CheckUploads(party=0))


def test_clients_that_do_not_allow_a_run_are_left_out(hosts: list[Path], tmp_path: Path) -> None:
    """What an upload has spent is added up by each host."""
    one = share_more(hosts, tmp_path, ALLOWED)

    def run(**changes: Any) -> Collection[str]:
        with ExitStack() as stack:
            coordinator = Coordinator(hosts[0], stack)
            work = coordinator.work
            coordinator.aggregated(asked(**changes))
            batches: Collection[str] = run_of(work).inputs.inputs.batches
            answered(work, to_prepare(0))
            let_go(coordinator, work, hosts)
            return batches

    assert one in run(epsilon="1/2") and one in run(epsilon="1/2") and one not in run(epsilon="1/2")


@pytest.mark.parametrize(
    ("allowed", "covered"),
    [
        (ALLOWED, True),
        (replace(ALLOWED, tasks=("gap",)), False),
        (replace(ALLOWED, unit=PrivacyUnit.CLIENT), False),
        (allowing(("weights",), "9/10", "1/1024"), False),
        (allowing(("weights",), "1", "1/1000000000000000"), False),
    ],
)
def test_a_client_says_for_what_its_upload_may_be_used(
    allowed: ClientPolicy, covered: bool, hosts: list[Path], tmp_path: Path, stack: ExitStack
) -> None:
    one = share_more(hosts, tmp_path, allowed)
    work = Coordinator(hosts[0], stack).work
    work.propose(Propose(asked=asked()))
    report = listed(work)
    assert (one in report.sound, left_out(report.unsound).get(one) == UNCOVERED) == (covered, not covered)


def share_more(hosts: list[Path], tmp_path: Path, allowed: ClientPolicy | None) -> str:
    """Give each host its share of one more upload, with its client's policy; return its identity."""
    batch = share(records(), PI_RW.input_forms["split"], MODEL, tmp_path / "shares", allowed)
    to_hosts(tmp_path / "shares", hosts)
    return batch


@pytest.mark.parametrize("what", ["comes", "goes"])
def test_what_a_host_listed_is_what_it_counts(what: str, hosts: list[Path], tmp_path: Path) -> None:
    """An upload that comes after it waits for the next run, as does that one goes."""
    one = share_more(hosts, tmp_path, ALLOWED)
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.work.propose(Propose(asked=asked()))
        coordinator.tell(hosts, asked())
        if what == "comes":
            share_more(hosts, tmp_path, None)
        else:
            (hosts[0] / "shares" / f"{one}.share").unlink()
        counted = answered(coordinator.work, Aggregate(party=0)).head.splitlines()[1].split()
        assert one in counted and len(counted) == 2
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack).work
        work.propose(Propose(asked=asked()))
        assert len(listed(work).sound) == (3 if what == "comes" else 1)


@pytest.mark.parametrize("taken_away", [True, False])
def test_a_host_goes_on_from_where_a_killed_one_was(
    taken_away: bool, hosts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens nothing again, keeps what clients allow, and counts none that its owner took away since."""
    for allowed in (ALLOWED, replace(ALLOWED, tasks=("gap",))):
        one = share_more(hosts, tmp_path, allowed)
    with monkeypatch.context() as patched, ExitStack() as stack:
        patched.setattr(counting, "_CHECKPOINT_S", 0)
        work = Coordinator(hosts[0], stack).work
        work.propose(Propose(asked=asked()))
        assert len(listed(work).sound) == 2  # and there its process ends
    if taken_away:
        for host in hosts:
            (host / "shares" / f"{one}.share").unlink()
    opened = Mock(return_value=UNREADABLE)
    with monkeypatch.context() as patched, ExitStack() as stack:
        if not taken_away:
            patched.setattr(counting, "open_envelope", opened)
        work = Coordinator(hosts[0], stack).work
        work.propose(Propose(asked=asked()))
        report = listed(work)
        assert len(report.sound) == 2 and not opened.called
        assert left_out(report.unsound) == ({} if taken_away else {one: UNCOVERED})


def test_a_host_opens_each_upload_once(hosts: list[Path], tmp_path: Path) -> None:
    """For its list and for the count, if all take what it listed."""
    share_more(hosts, tmp_path, ALLOWED)
    opened = Mock()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patched:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.work.propose(Propose(asked=asked()))
        coordinator.tell(hosts, asked())
        patched.setattr(counting, "open_envelope", opened)
        assert len(answered(coordinator.work, Aggregate(party=0)).head.splitlines()[1].split()) == 2
    assert not opened.called and not (hosts[0] / CHECKPOINT).exists()


@pytest.mark.parametrize("what", ["another list", "another party's list", "no list"])
def test_lists_are_what_other_hosts_signed(what: str, hosts: list[Path]) -> None:
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.work.propose(Propose(asked=asked()))
        coordinator.tell(hosts, asked())
        state = run_of(coordinator.work)
        if what == "another list":
            text = state.list_of(1).read_text().replace("a", "b")
            state.list_of(1).write_text(text)
        elif what == "no list":
            state.list_of(1).unlink()
        else:
            state.list_of(2).write_text(state.list_of(1).read_text())
        with pytest.raises((HostUnfitError, OSError), match=r"another list of party [12] than|No such file"):
            answered(coordinator.work, Aggregate(party=0))


def test_a_coordinator_passes_lists_on_once_and_in_order(
    hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a host's own one, nor from far beyond its end, nor more of it than any run's uploads need."""
    nobody = Signed("", "", "")
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.work.propose(Propose(asked=asked()))
        work = coordinator.work
        assert "does not answer 'take_list'" in str(refused_request(work, TakeList))
        answered(work, CheckUploads(party=0))
        list_of = run_of(work).list_of
        own = list_of(0).read_bytes()
        with pytest.raises(HostUnfitError, match="its own uploads, which it has listed itself"):
            answered(work, TakeList(lister=0, signed=nobody, at=0, piece="forged"))
        for at in (1, 8 * 10**12):
            with pytest.raises(HostUnfitError, match=f"of party 1 from byte {at} on, and has 0 bytes of it"):
                answered(work, TakeList(lister=1, signed=nobody, at=at, piece="x"))
        answered(work, TakeList(lister=1, signed=nobody, at=0, piece="12345"))
        with pytest.raises(HostUnfitError, match="from byte 0 on, and has 5 bytes of it"):
            answered(work, TakeList(lister=1, signed=nobody, at=0, piece="others"))
        answered(work, TakeList(lister=1, signed=nobody, at=5, piece="6789"))
        monkeypatch.setattr(listed_uploads, "LONGEST_LIST", 12)
        with pytest.raises(HostUnfitError, match="more uploads of party 1 than the 100,000,000 that a run"):
            answered(work, TakeList(lister=1, signed=nobody, at=9, piece="0123"))
        assert list_of(0).read_bytes() == own and list_of(1).read_text() == "123456789"
        assert 65 * 10**8 < LONGEST_LIST < 66 * 10**8 and not list_of(2).exists()


def refused_request(work: Work, request: Kind) -> HostUnfitError:
    with pytest.raises(HostUnfitError) as refused:
        work.admit(request)
    return refused.value


def test_a_host_charges_a_chain_once_and_keeps_what_it_counted(hosts: list[Path], tmp_path: Path) -> None:
    """Whatever the coordinator says, an upload that its ledger has of the chain goes into no other run."""
    with ExitStack() as stack, pytest.raises(PolicyError, match="allows no chains for population 'loans'"):
        Coordinator(hosts[0], stack).work.propose(Propose(asked=asked(chain="monthly")))
    for host in hosts:
        write_rules(host, RULE + "chains = true\n")
    assert ran(hosts, chain="monthly").gone
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack).work
        work.propose(Propose(asked=asked(chain="monthly")))
        with pytest.raises(UsedUploadsError, match="counted all 1 uploads that are sound at party 0"):
            listed(work)
    new = share_more(hosts, tmp_path, None)
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        coordinator.aggregated(asked(chain="monthly"))
        work = coordinator.work
        answered(work, to_prepare(0))
        assert let_go(coordinator, work, hosts).gone
    assert len(spent(hosts[0])) == 1
    counted = Ledger(hosts[0] / LEDGER).counted("loans", "monthly", [new])
    assert counted == {new}
    assert ran(hosts).gone and len(spent(hosts[0])) == 2  # what is of no chain adds up


def test_uploads_for_another_statistic_are_refused(
    hosts: list[Path], tmp_path: Path, stack: ExitStack
) -> None:
    share_more(hosts, tmp_path, ALLOWED)
    work = Coordinator(hosts[0], stack).work
    work.propose(Propose(asked=asked("gap", input_form="split")))
    with pytest.raises(ShareError, match="gap needs"):
        answered(work, CheckUploads(party=0))
