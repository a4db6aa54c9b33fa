"""A host that answers nonsense, wherever in a run: the coordinator says so, and writes no result."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.engines.parties.handle import PartyState
from harness.engines.registry import engines
from harness.errors import FairSharesError, OutputError
from harness.hosts.checks import Finding, check_connected
from harness.hosts.connection import checked
from harness.hosts.inventory import Host
from harness.hosts.runner import HostsRunner, HostsSource
from harness.inputs.shares.party import ANY
from harness.pipeline.run import RunSettings, run_release
from harness.privacy.ledger.charge import Account
from harness.privacy.ledger.entries import Ledger
from harness.releases.weights import WeightsStatistic
from protocols.spec import PI_RW, SHARES
from tests.support.coordinators import MODEL, make_hosts
from tests.support.hostile import check_refuses, spoilt
from tests.support.loopback import hosts_runner
from tests.support.requests import request_of

RELEASE = request_of(MODEL, PI_RW.input_forms["split"].by(SHARES), Fraction(1), Fraction(1, 2**40))
HOSTS = [Host(i, f"{name}.example", "/d", "/p", 9000 + i) for i, name in enumerate("abc")]
ENDED = "ended"  # which no request is for
EXTREMES: dict[type, tuple[Any, ...]] = {
    int: (-(10**400), 10**400, -1000),
    float: (-1.0, 1e308),
    str: ("", "\x1b[2J\n", "9" * 5000),
    list: ([],),
}
Answers = dict[str, list[Any]]  # of one host, by request, in order


class Replaying:
    """Stands for the connection to a host that says what it has said before, whatever it is asked."""

    lost = False

    def __init__(self, host: Host, answers: Answers) -> None:
        self.host, self._answers = host, deepcopy(answers)

    def ask(self, request: str, _patience_s: float = 0.0, kind: Any = None, **details: Any) -> Any:
        if request == "reach":  # whom, depends on what others say
            return [None] * len(details["others"])
        said = self._answers.get(request)
        return checked(kind, said.pop(0) if said else {}, self.host, request)

    @property
    def ended(self) -> Any:
        return self._answers[ENDED][0]

    @ended.setter
    def ended(self, how: Any) -> None: ...


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Answers]:
    """Return what honest hosts say in a run, by party."""
    at = tmp_path_factory.mktemp("honest")
    said: list[Answers] = [{} for _ in range(MODEL.parties)]

    def noted(party: int) -> Callable[[str, Any, Any], Any]:
        def note(request: str, _work: Any, answer: Any) -> Any:
            said[party].setdefault(request, []).append(json.loads(json.dumps(answer)))
            return answer

        return note

    hosts = make_hosts(at)
    after = {i: noted(i) for i in range(MODEL.parties)}
    with hosts_runner(hosts, MODEL, RELEASE.but(population="loans"), after) as runner:
        findings = [Finding(one.host, one) for one in runner._connections]
        check_connected(findings, MODEL, lambda step: None)
        release(runner, at / "out")
        for one, each in zip(runner._connections, said, strict=True):
            each[ENDED] = [json.loads(json.dumps(one.ended))]
    return said


def release(runner: HostsRunner, out: Path) -> None:
    account = Account(Ledger(out.parent / "ledger.sqlite"), "loans")
    settings = RunSettings(RELEASE, timeout_s=600, account=account, hosts=runner)
    run_release(WeightsStatistic(), HostsSource(runner, ANY), settings, out, lambda step: None)


def replay(said: list[Answers], party: int, request: str, answer: Any) -> list[Replaying]:
    """Return connections to hosts that say this, of which one gives another answer to a request, at last."""
    changed = [dict(answers) for answers in said]
    changed[party][request] = [*said[party][request][:-1], answer]
    return [Replaying(host, answers) for host, answers in zip(HOSTS, changed, strict=True)]


def extreme(good: Any) -> Iterator[Any]:
    """Yield documents of the same types, with a value that nobody thought of."""
    yield from EXTREMES.get(type(good), ())
    items = good.items() if isinstance(good, dict) else enumerate(good) if isinstance(good, list) else ()
    for key, value in items:
        for wrong in extreme(value):
            changed = deepcopy(good)
            changed[key] = wrong
            yield changed


REQUESTS = ("check_uploads", "aggregate", "prepare", "agree", "certificate", ENDED)


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_run_with_a_host_that_says_anything(request_: str, said: list[Answers], tmp_path: Path) -> None:
    """It ends well, as what is not of the coordinator's concern is nonsense, or in one sentence."""

    def run(answer: Any) -> None:
        runner = HostsRunner(HOSTS, MODEL)
        runner._connections = replay(said, 1, request_, answer)  # type: ignore[assignment]
        release(runner, tmp_path / "out")
        pytest.fail(f"it was taken: {answer!r}")

    (good,) = said[1][request_]
    optional = set(good) if request_ == ENDED else ()
    cases = spoilt(good, optional=optional, either=("peak_memory_bytes", "signed"))
    may_be_none = request_ in ("check_uploads", ENDED)  # it has aggregates; its party still runs
    check_refuses(run, FairSharesError, (case for case in cases if case[1] is not None or not may_be_none))
    for number, wrong in enumerate(extreme(good)):
        runner = HostsRunner(HOSTS, MODEL)
        runner._connections = replay(said, 1, request_, wrong)  # type: ignore[assignment]
        out = tmp_path / f"{number}"
        try:
            release(runner, out)
        except FairSharesError:
            assert not out.exists()


def test_a_host_of_which_any_facts_are_told(said: list[Answers]) -> None:
    """Its answer is a fault of its own, or right; of others nothing is said."""
    (good,) = said[1]["check"]
    for wrong in [*(wrong for _, wrong in spoilt(good)), *extreme(good)]:
        findings = [Finding(one.host, one) for one in replay(said, 1, "check", wrong)]
        check_connected(findings, MODEL, lambda step: None)
        for finding in findings:
            json.dumps(finding.to_json())
            assert all(one.startswith(finding.host.title) for one in finding.faults.values())


@pytest.mark.parametrize("engine", engines().values(), ids=lambda engine: engine.name)
@pytest.mark.parametrize("digits", [".", "9" * 400 + ".0", "9" * 5000, "1e999", "-", "e"])
def test_digits_that_are_no_number_are_no_cost(engine: Any, digits: str) -> None:
    for seconds, sent in ((digits, "1"), ("1.0", digits)):
        spent = f"Spent {digits} seconds (1 MB, 1 rounds) on the online phase and {digits} seconds (1 MB)"
        of_data = (f"Data sent = {sent} bytes", f"Data sent = {sent} MB in ~1 rounds")
        lines = (f"Time = {seconds} seconds", *of_data, spent)
        with pytest.raises(OutputError, match="Party 0 ended well but did not report its time and traffic"):
            engine.costs([PartyState(lines)])
