"""Hosts that answer nonsense, in a run or to another command: it is said in one sentence, nothing written."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import structs

from fairshares import load
from fairshares.harness.cli.commands import hosts as commands
from fairshares.harness.cli.options import HostsCollectOptions
from fairshares.harness.computation import Preprocessing
from fairshares.harness.engines.engine import left_out_by
from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.engines.registry import engines
from fairshares.harness.errors import (
    CertificateError,
    FairSharesError,
    HostUnfitError,
    OutputError,
    SignatureError,
)
from fairshares.harness.hosts import fleet, host_keys
from fairshares.harness.hosts.connection import checked
from fairshares.harness.hosts.fleet import (
    Answered,
    Finding,
    HostAnswer,
    ReachedHost,
    _compare_certificates,
    check_connected,
)
from fairshares.harness.hosts.frames import Role
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import (
    AgentGreets,
    Forget,
    HostFacts,
    Listen,
    Message,
    PartyEnd,
    Prepare,
    Reach,
    answer_type,
)
from fairshares.harness.hosts.remote_parties import ConnectedHosts
from fairshares.harness.hosts.runner import HostsRunner, HostsSource, ProposedRelease, noise_made
from fairshares.harness.hosts.signed_results import InputSource, Intent, Statement, sign, verify
from fairshares.harness.party_reports import ClientsServed, line_of
from fairshares.harness.pipeline import run
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.manifest import SIGNATURES
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Protect, Request
from fairshares.harness.system.result_files import write_all
from fairshares.protocols.spec import SHARES
from tests.support.command import files_below
from tests.support.coordinators import MODEL, as_sent, hosts_runner, make_hosts
from tests.support.hostile import check_refuses, spoilt
from tests.support.requests import request_of

pytestmark = pytest.mark.usefixtures("in_shell")

RELEASE = request_of(MODEL, PI_RW.input_forms["split"].by(SHARES), Fraction(1), Fraction(1, 2**40)).but(
    Request.population, "loans"
)
HOSTS = [Host(i, f"{name}.example", "/d", "/p", 9000 + i) for i, name in enumerate("abc")]
ENDED = "ended"  # which no request is for
EXTREMES: dict[type, tuple[Any, ...]] = {
    int: (-(10**400), 10**400, -1000),
    float: (-1.0, 1e308),
    str: ("", "\x1b[2J\n", "9" * 5000),
    list: ([],),
}
Answers = dict[str, list[Any]]  # of one host, by request, in order


T = TypeVar("T")


class Replaying:
    """Stands for the connection to a host that says what it has said before, whatever it is asked."""

    lost = False

    def __init__(self, host: Host, answers: Answers) -> None:
        self.host, self._answers = host, deepcopy(answers)

    def ask(self, message: Message[T]) -> T:
        answers = self._answers.get(message.name())
        said = answers.pop(0) if answers else {}
        if isinstance(message, Reach):  # whom, depends on what others say
            said = [as_sent(AgentGreets())] * len(message.others)
        return checked(answer_type(type(message)), said, self.host, message.name())

    def party_end(self) -> PartyEnd | None:
        return checked(PartyEnd, self._answers[ENDED][0], self.host, "state")

    def forget_end(self) -> None: ...


@pytest.fixture(scope="module")
def hosts_of_said(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the directories of the honest hosts, by party."""
    return make_hosts(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def said(hosts_of_said: list[Path]) -> list[Answers]:
    """Return what honest hosts say in a run, by party."""
    at = hosts_of_said[0].parent
    said: list[Answers] = [{} for _ in range(MODEL.parties)]

    def noted(party: int) -> Callable[[str, Any, Any], Any]:
        def note(request: str, _work: Any, answer: Any) -> Any:
            said[party].setdefault(request, []).append(json.loads(json.dumps(answer)))
            return answer

        return note

    after = {i: noted(i) for i in range(MODEL.parties)}
    with hosts_runner(hosts_of_said, MODEL, RELEASE, after) as runner:
        findings = [found(one) for one in runner.proposed.hosts.connections]
        check_connected(findings, MODEL, lambda step: None)
        release(runner, at / "out")
        for one, answers in zip(runner.proposed.hosts.connections, said, strict=True):
            answers[ENDED] = [as_sent(one.party_end())]
    return said


def runner_of(connections: list[Replaying]) -> HostsRunner:
    """Return what runs the release at hosts to which these connections lead."""
    hosts: Any = connections
    return HostsRunner(ProposedRelease(ConnectedHosts(MODEL, hosts), RELEASE))


def release(runner: HostsRunner, out: Path, asked: Request = RELEASE) -> None:
    account = Account(Ledger(out.parent / "ledger.sqlite"), "loans")
    settings = RunSettings(asked, timeout_s=600, account=account, hosts=runner)
    run_release(WeightsStatistic(), HostsSource(runner.proposed), settings, out, lambda step: None)


def found(connection: Any) -> ReachedHost:
    """Return that nothing is known yet of a host, to which such a connection leads."""
    return ReachedHost.by(connection)


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

    def run_with(answer: Any) -> None:
        runner = runner_of(replay(said, 1, request_, answer))
        release(runner, tmp_path / "out")
        pytest.fail(f"it was taken: {answer!r}")

    (good,) = said[1][request_]
    optional = {*good, *good["state"]} if request_ == ENDED else ()
    cases = spoilt(good, optional=optional, either=("peak_memory_bytes",))
    may_be_none = request_ in ("check_uploads", ENDED)  # it has aggregates; its party still runs
    check_refuses(
        run_with, FairSharesError, (case for case in cases if case[1] is not None or not may_be_none)
    )
    for number, wrong in enumerate(extreme(good)):
        runner = runner_of(replay(said, 1, request_, wrong))
        out = tmp_path / f"{number}"
        try:
            release(runner, out)
        except FairSharesError:
            assert not out.exists()
        else:  # and what is written stands, whatever else that host said
            assert verify(out) and load(out).manifest["hosts"]


def signed_again(said: list[Answers], by: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return the last state of host 1's party, with a statement that it signed after a change."""
    (ended,) = deepcopy(said[1][ENDED])
    before = json.loads(ended["signed"]["said"])
    change(before)
    ran = Intent(**before.pop("ran"))
    spent = tuple(before.pop("spent"))
    return ended | {"signed": asdict(sign(Statement(ran=ran, spent=spent, **before), by))}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: one["outputs"]["counts"].__setitem__(0, 10**6), "signed other values than its party"),
        (lambda one: one["ran"].update(party=2), "signed another run than the one that it had agreed to"),
        (lambda one: one["ran"].update(head="0" * 64), "signed another run than the one that it had agreed"),
        (lambda one: one["met"].pop("2"), "party 1 met parties of other certificates"),
        (lambda one: one.update(spent=["1/100", "0"]), "parties 0 and 1 signed different runs"),
        (lambda one: one.update(ended="never"), "party 1 signed a start or an end that is no time"),
        (lambda one: one.update(ended='"' * 10**6), "party 1 signed a start or an end that is no time"),
        (None, "signed nothing"),
        ("another key", "signed another run than the one that it had agreed to"),
    ],
)
def test_nothing_is_written_unless_all_hosts_sign_the_run_that_took_place(
    change: Any, says: str, said: list[Answers], hosts_of_said: list[Path], tmp_path: Path
) -> None:
    """And no host is told to forget what it signed, nor does the coordinator's ledger forget the charge."""
    own = hosts_of_said[1] / "keys" / "embedded" / "P1.pem"
    if change is None:
        ended = said[1][ENDED][0] | {"signed": None}
    elif change == "another key":
        ended = signed_again(said, make_key(tmp_path, "P1", "MPyC party 1"), dict)
    else:
        ended = signed_again(said, own, change)
    forgotten = []

    class Keeping(Replaying):
        def ask(self, message: Message[T]) -> T:
            forgotten.extend([self.host] if isinstance(message, Forget) else [])
            return super().ask(message)

    def run(last: dict[str, Any], out: Path) -> None:
        replayed = replay(said, 1, ENDED, last)
        runner = runner_of([Keeping(one.host, one._answers) for one in replayed])
        release(runner, out)

    with pytest.raises(HostUnfitError, match=r"\./inv hosts\.collect") as refused:
        run(ended, tmp_path / "first" / "out")
    assert says in str(refused.value)
    assert not forgotten and files_below(tmp_path / "first") == {"ledger.sqlite"}
    assert Ledger(tmp_path / "first" / "ledger.sqlite").populations() != []
    run(said[1][ENDED][0], tmp_path / "second" / "out")
    assert forgotten == HOSTS and (tmp_path / "second" / "out" / SIGNATURES).exists()


def test_noise_that_hosts_did_not_sign_is_not_kept() -> None:
    made = EngineResult(model=MODEL, outputs={}, engine="", engine_version="", program_hash="")
    with pytest.raises(HostUnfitError, match="names no piece of noise"):
        noise_made(made)
    noise = Preprocessing(piece="0" * 12, attempts=1)
    assert noise_made(replace(made, preprocessing=noise)) is noise


def test_results_that_nobody_could_verify_are_not_put_in_place(
    said: list[Answers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes them so: hosts keep what they signed then."""
    asked: list[str] = []

    class Noting(Replaying):
        def ask(self, message: Message[T]) -> T:
            asked.append(message.name())
            return super().ask(message)

    replayed = replay(said, 1, ENDED, said[1][ENDED][0])
    runner = runner_of([Noting(one.host, one._answers) for one in replayed])
    monkeypatch.setattr(run, "write_all", lambda directory, files: write_all(directory, changed(files)))
    with pytest.raises(SignatureError, match="its 'weights' is another"):
        release(runner, tmp_path / "out")
    assert files_below(tmp_path) == {"ledger.sqlite"} and "forget" not in asked


def changed(files: dict[str, Any]) -> dict[str, Any]:
    return {**files, "weights.json": {**files["weights.json"], "weights": [[-1.0, 1.0], [1.0, 1.0]]}}


def test_a_run_to_which_a_host_does_not_agree_is_charged_nowhere(said: list[Answers], tmp_path: Path) -> None:
    """Not even at the coordinator, whose ledger is charged before any party begins."""
    runner = runner_of(replay(said, 1, "agree", {}))
    with pytest.raises(HostUnfitError, match=r"^Host b\.example \(party 1\): its answer to 'agree'"):
        release(runner, tmp_path / "out")
    assert Ledger(tmp_path / "ledger.sqlite").populations() == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"program_hash": "f" * 64}, "What party 1 signed is not this run: .* something else"),
        ({"party": 2}, "What party 1 signed is not this run: .* something else"),
        ({"nonces": ["0", "1", "2"]}, "What party 1 signed is not this run: .* something else"),
        ({"lists": {"0": "f" * 64}}, "party 1 lies about what party 0 said of the uploads"),
        ({"run_certificate": "none"}, "The certificate of party 1 for this run"),
        ({"run_certificate": ""}, "The certificate of party 1 for this run"),
        ({"seen": {"2": "a" * 64}}, "host of party 2 was not asked for a head that party 1"),
        (None, "a signature is not its certificate's"),
    ],
)
def test_what_hosts_would_refuse_of_each_other_is_charged_nowhere(
    change: dict[str, Any] | None, says: str, said: list[Answers], hosts_of_said: list[Path], tmp_path: Path
) -> None:
    """These hosts let anybody go: whoever starts the run has refused it before it charged and let go any."""
    (good,) = said[1]["agree"]
    own = hosts_of_said[1] / "keys" / "embedded" / "P1.pem"
    signed = good | {"signature": said[0]["agree"][0]["signature"]}
    if change is not None:
        intent = replace(Intent(**json.loads(good["said"])), **change)
        signed = as_sent(sign(intent, own))
    asked: list[str] = []

    class Noting(Replaying):
        def ask(self, message: Message[T]) -> T:
            asked.append(message.name())
            return super().ask(message)

    def run(agreed: Any, out: Path) -> None:
        replayed = replay(said, 1, "agree", agreed)
        release(runner_of([Noting(one.host, one._answers) for one in replayed]), out)

    with pytest.raises(FairSharesError, match=says):
        run(signed, tmp_path / "first" / "out")
    assert "agree" in asked and "go" not in asked
    assert Ledger(tmp_path / "first" / "ledger.sqlite").populations() == []
    run(good, tmp_path / "second" / "out")
    assert "go" in asked and Ledger(tmp_path / "second" / "ledger.sqlite").populations() != []


def test_hosts_run_the_job_that_is_charged_here_or_none(said: list[Answers], tmp_path: Path) -> None:
    """Whoever proposed another ε than it charges, or meets a host that prepared something else."""
    runner = runner_of(replay(said, 1, "agree", said[1]["agree"][-1]))
    with pytest.raises(HostUnfitError, match=r"\(party 0\) prepared another run than the one that this mach"):
        release(runner, tmp_path / "out", RELEASE.but(Protect.epsilon, RELEASE.protect.epsilon / 2))
    other = said[1]["prepare"][-1] | {"job_hash": said[1]["prepare"][-1]["program_hash"]}
    runner = runner_of(replay(said, 1, "prepare", other))
    with pytest.raises(HostUnfitError, match=r"\(party 1\) prepared another run .* no party was started"):
        release(runner, tmp_path / "out")
    assert Ledger(tmp_path / "ledger.sqlite").populations() == [] and not (tmp_path / "out").exists()


def test_hosts_take_a_piece_of_noise_that_all_of_them_have(said: list[Answers], tmp_path: Path) -> None:
    """The first by name, though hosts list others before it."""
    names = [letter * 64 for letter in "abcd"]
    held = [names[:3], [names[3], names[2], names[1]], [names[2], names[1]]]
    answers = deepcopy(said)
    for answers_of_host, pieces in zip(answers, held, strict=True):
        answers_of_host["aggregate"][-1]["pieces"] = pieces
    taken: list[str | None] = []

    class Noting(Replaying):
        def ask(self, message: Message[T]) -> T:
            if isinstance(message, Prepare):
                taken.append(message.piece)
            return super().ask(message)

    release(
        runner_of([Noting(host, told) for host, told in zip(HOSTS, answers, strict=True)]), tmp_path / "out"
    )
    assert taken == [names[1]] * MODEL.parties


def test_a_host_of_which_any_facts_are_told(said: list[Answers]) -> None:
    """Its answer is a fault of its own, or right; of others nothing is said."""
    (good,) = said[1]["check"]
    for wrong in [*(wrong for _, wrong in spoilt(good)), *extreme(good)]:
        findings = [found(one) for one in replay(said, 1, "check", wrong)]
        check_connected(findings, MODEL, lambda step: None)
        for finding in findings:
            json.dumps(finding.finding.to_json())
            assert all(one.startswith(finding.host.title) for one in finding.faults.values())


@pytest.mark.parametrize("engine", engines().values(), ids=lambda engine: engine.name)
@pytest.mark.parametrize("digits", [".", "9" * 400 + ".0", "9" * 5000, "9" * 30, "1e999", "-", "e"])
def test_digits_that_are_no_number_are_no_cost(engine: Any, digits: str) -> None:
    for seconds, sent in ((digits, "1"), ("1.0", digits)):
        spent = f"Spent {digits} seconds (1 MB, 1 rounds) on the online phase and {digits} seconds (1 MB)"
        report = f'fairshares: {{"type":"costs","seconds":{seconds},"sent_bytes":{sent}}}'
        lines = (f"Time = {seconds} seconds", f"Data sent = {sent} MB in ~1 rounds", spent, report)
        with pytest.raises(OutputError, match="Party 0 ended well but did not report its time and traffic"):
            engine.costs([PartyState(lines)])


SERVED = line_of(ClientsServed(sent_bytes=1, received_bytes=1, absent=0, failed=5, complained=0))


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 5000, "\u0661", "-1"])
def test_digits_that_are_no_number_are_no_clients(digits: str) -> None:
    with pytest.raises(OutputError, match="Party 0 ended well but did not report its clients' traffic"):
        left_out_by(0, [SERVED.replace("5", digits)])


RUN = "0a" * 16


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate that a host may sign by."""
    return make_key(tmp_path_factory.mktemp("key"), "P0", "P0")


ASKED = {"task": "gap", "security": MODEL.name, "epsilon": "1"}


@pytest.fixture
def kept(own: Path) -> Callable[..., dict[str, str]]:
    """Return what gives what a host keeps of a run that revealed one number: `kept(party, **changes)`."""

    def signed(party: int, **changes: Any) -> dict[str, str]:
        run = {"run": RUN, "asked": ASKED, **changes}
        intent = Intent(
            *(
                ["0", "1", "2"],
                party,
                run["run"],
                "2026-01-01",
                run["asked"],
                {},
                InputSource.UPLOADS,
                {},
                "u",
            ),
            *(run.get("program_hash", "h"), "MPyC", 0),
        )
        said = Statement(intent, {}, ("1", "0"), {"gap": [7]}, {}, f"2026-01-0{1 + party}")
        return asdict(sign(said, own))

    return signed


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what has hosts answer: `answered(request, answer of host 0, of host 1, …)`."""
    answers: dict[str, list[Any]] = {}

    class Answering:
        lost = False

        def __init__(self, host: Host, _role: Role = Role.AGENT) -> None:
            self.host = host

        def ask(self, message: Message[T]) -> T:
            said = as_sent(answers[message.name()][self.host.party])
            return checked(answer_type(type(message)), said, self.host, message.name())

        def close(self) -> None: ...

    monkeypatch.setattr(fleet, "HostConnection", Answering)
    return lambda request, *said: answers.update({request: list(said)})


def collected() -> list[fleet.LeftoverRun]:
    return fleet.leftover_runs(HOSTS, lambda step: None)


def test_what_all_hosts_signed_gives_outputs(
    answered: Callable[..., None], kept: Callable[..., dict[str, str]]
) -> None:
    answered("collect", *([kept(i)] for i in range(3)))
    (record,) = collected()
    assert record.outputs == {"gap": [7]} and record.parties == [0, 1, 2]
    assert (record.ended, record.task) == ("2026-01-01", "gap")
    answered("collect", *([kept(i, program_hash=f"{i}")] for i in range(3)))
    assert collected()[0].outputs is None
    answered("collect", [kept(0)], [], [kept(2)])
    assert collected()[0].outputs is None


def test_what_a_host_says_it_keeps_is_what_one_keeps(
    answered: Callable[..., None], kept: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Whatever is wrong with it: the host is named, nothing is written."""
    text = "".join(
        f'[[host]]\nparty = {host.party}\naddress = "{host.address}"\ndirectory = "/d"\nproject = "/p"\n'
        "port = 1\n"
        for host in HOSTS
    )
    (tmp_path / "hosts.toml").write_text(text)
    made: Any = HostsCollectOptions
    options = made(hosts=tmp_path / "hosts.toml", out=tmp_path / "out")

    def collect(of_b: Any) -> None:
        answered("collect", [kept(0)], of_b, [kept(2)])
        with pytest.raises(HostUnfitError, match=r"^Host b\.example \(party 1\)") as refused:
            commands.collect(options)
        assert files_below(tmp_path) == {"hosts.toml"}
        raise refused.value

    check_refuses(collect, HostUnfitError, spoilt([kept(1)]))
    unknown: tuple[dict[str, Any], ...] = (
        {"run": f"../{RUN}"},
        {"run": "/tmp/x"},
        {"run": RUN.upper()},
        {"asked": {**ASKED, "security": "unknown"}},
        {"asked": {"task": "gap", "epsilon": "1"}},
        {"asked": {**ASKED, "task": "none"}},
        {"asked": {**ASKED, "field": "1"}},
        {"asked": {"task": "gap", "security": MODEL.name}},
        {"asked": {}},
    )
    for changes in unknown:
        with pytest.raises(HostUnfitError, match=r"a (run|request) that cannot be"):
            collect([kept(1, **changes)])
    for party in (2, -1):
        with pytest.raises(HostUnfitError, match="what another party revealed"):
            collect([kept(party)])
    with pytest.raises(HostUnfitError, match="a signature is not its certificate's"):
        collect([kept(1) | {"said": kept(0)["said"]}])
    with pytest.raises(HostUnfitError, match="or the same run twice"):
        collect([kept(1), kept(1)])
    answered("collect", *([kept(i)] for i in range(3)))
    commands.collect(options)
    assert files_below(tmp_path) == {"hosts.toml", "out", f"out/{RUN}.json"}


def test_what_was_removed_is_counted(answered: Callable[..., None]) -> None:
    def clean(of_b: Any) -> None:
        answered("clean", right, of_b, right)
        fleet.clean_up(HOSTS, lambda step: None)

    right = {"processes": 0, "directories": 1, "records": 2}
    check_refuses(clean, HostUnfitError, spoilt(right))
    clean(right)


def test_no_host_is_told_of_certificates_that_are_none(answered: Callable[..., None], tmp_path: Path) -> None:
    made = [host_keys.make_keys(tmp_path / str(i), i, renew=False) for i in range(3)]
    (tmp_path / "other").mkdir()
    other = make_key(tmp_path / "other", "P9", "P9").read_text()

    def set_up(of_b: Any) -> Any:
        answered("setup", made[0], of_b, made[2])
        return fleet.set_up(HOSTS, renew=False, policy_text=None, progress=lambda step: None, models=["ring"])

    wrong: list[Any] = [None, [], "x", {"mpyc": 1}]
    for name in engines():
        wrong += [{**made[1], name: text} for text in ("", "x", other, made[0][name])]
        wrong += [{key: text for key, text in made[1].items() if key != name}]
    for of_b in wrong:  # and "pin" is not even asked
        with pytest.raises((HostUnfitError, CertificateError), match=r"^Host b\.example \(party 1\)"):
            set_up(of_b)
    nonsense: Any
    for nonsense in ("x", {"embedded": [{}]}, {"embedded": {"said": ""}}, None):
        answered("successors", {}, nonsense, {})
        with pytest.raises(HostUnfitError, match=r"^Host b\.example \(party 1\): its answer to 'successors'"):
            set_up(made[1])
    answered("successors", {}, {}, {})
    answered("pin", None, None, None)
    assert set_up(made[1]) == {name: {i: made[i][name] for i in range(3)} for name in engines()}
    answered("pin", None, "what nobody asked for", None)
    with pytest.raises(HostUnfitError, match=r"^Host b\.example \(party 1\): its answer to 'pin'"):
        set_up(made[1])


def test_who_holds_another_certificate_than_a_host_has_is_named(said: list[Answers]) -> None:
    (facts,) = said[0]["check"]
    told = checked(HostFacts, facts | {"fingerprints": {"0": "A0", "1": "A1"}}, HOSTS[0], "check")
    findings = [Finding(HOSTS[i]) for i in range(2)]
    nobody: Any = None  # is asked
    answer = HostAnswer(told, 0.0)
    _compare_certificates([Answered(finding, nobody, answer) for finding in findings])
    assert not findings[0].faults and not findings[1].faults
    changed = HostAnswer(structs.replace(told, fingerprints={"0": "B0", "1": "A1"}), 0.0)
    _compare_certificates([Answered(findings[0], nobody, answer), Answered(findings[1], nobody, changed)])
    assert list(findings[1].faults) == ["certificates"] and not findings[0].faults
    fault = "Host b.example (party 1) holds another certificate of party 0 (B0…) than host a.example"
    assert findings[1].faults["certificates"].startswith(fault)


def test_a_host_greets_as_agents_do(answered: Callable[..., None]) -> None:
    answered("listen", "SSH-2.0", RUN, 5)
    answering: Any = vars(fleet)["HostConnection"]
    for host in (HOSTS[0], HOSTS[2]):
        with pytest.raises(HostUnfitError, match=rf"^{host.title[:14]}.*its answer to 'listen'"):
            answering(host).ask(Listen(port=1))
    assert answering(HOSTS[1]).ask(Listen(port=1)) == RUN
