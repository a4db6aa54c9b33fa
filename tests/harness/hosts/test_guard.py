"""What a host does not do whoever starts runs on it: a row of the table in docs/how-to/hosts.md each."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.engines.parties.certificates import make_key
from harness.engines.parties.supervisor import free_ports
from harness.errors import (
    BudgetError,
    CertificateError,
    HostUnfitError,
    LedgerError,
    OptionError,
    PolicyError,
    PopulationError,
    ShareError,
    UnsupportedError,
    UsedUploadsError,
)
from harness.hosts import work as work_module
from harness.hosts.policy import FILE, LEDGER
from harness.hosts.signed_results import AGGREGATE, Signed, sign
from harness.hosts.work import Sending, Work
from harness.inputs.aggregation import ANY, UNCOVERED
from harness.inputs.client_policy import ClientPolicy
from harness.inputs.encoding import shared_over
from harness.inputs.shares import share
from harness.pipeline.terms import asked_of
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from harness.releases.base import Release
from harness.releases.gaps import GapStatistic
from harness.releases.weights import WeightsStatistic
from harness.security_models import get_model
from harness.system.documents import Refusal, call
from harness.system.files import PREFIX
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Budget
from protocols.spec import CLIENTS, PI_RW
from tests.support.running import until
from tests.support.starters import (
    ANY_PORT,
    MODEL,
    RULE,
    Starter,
    asked,
    listed,
    make_hosts,
    now,
    records,
    write_rules,
)


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    return make_hosts(tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


class Party:
    """Takes the place of a process; says whether it was let go."""

    number, gone = 0, False

    def go(self, _certificates: object) -> None:
        self.gone = True

    def kill(self) -> None: ...

    def close(self) -> None: ...


def spent(host: Path) -> list[tuple[str, Fraction, Status]]:
    """Return what a host's ledger has: of whom, ε, and what became of the run."""
    return [
        (each.name, charge.exact.epsilon, charge.status)
        for each in Ledger(host / LEDGER).populations()
        for charge in each.charges
    ]


def ran(hosts: list[Path], party: int = 0, found: Party | None = None, **changes: Any) -> Party:
    """Prepare a party on its host and let it go, of which nothing runs; return it."""
    with ExitStack() as stack:
        starter = Starter(hosts[party], stack)
        return let_go(starter, starter.prepared(asked(**changes), party), hosts, found)


def let_go(starter: Starter, work: Work, hosts: list[Path], found: Party | None = None) -> Party:
    made = found or Party()
    made.number = work._laid_out().number
    work._party = made  # type: ignore[assignment]
    starter.go(hosts)
    return made


@pytest.mark.parametrize("request_", ["setup", "pin", "renew", "policy", "make_keys"])
def test_no_request_touches_keys_or_policy(request_: str, hosts: list[Path], stack: ExitStack) -> None:
    assert request_ not in Starter(hosts[0], stack).work.handlers


def test_whatever_is_asked_keys_and_policy_stay(hosts: list[Path], stack: ExitStack) -> None:
    before = digest(hosts[0])
    work = Starter(hosts[0], stack).prepared(asked())
    for handler in set(work.handlers.values()):
        for arguments in ({}, {"party": 1}, {"run": "0" * 32}):
            refusal = Refusal(HostUnfitError, "it", "right", "no")
            with ExitStack() as ignored:
                ignored.push(lambda *_: True)
                call(handler, dict(arguments), refusal)
    assert digest(hosts[0]) == before


def digest(host: Path) -> str:
    paths = [*sorted((host / "keys").rglob("*")), host / FILE]
    found = [(str(path), path.read_bytes() if path.is_file() else b"") for path in paths]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def test_a_host_is_not_set_among_a_starters_own(hosts: list[Path], stack: ExitStack, tmp_path: Path) -> None:
    """It runs with the parties whose certificates its owner accepted, and charges nothing for others."""
    starter = Starter(hosts[0], stack)
    starter.prepared(asked())
    own = make_key(tmp_path, "P1", "MPyC party 1")
    work = starter.work
    nonces = [work._nonce, "1", "2"]
    signed = {"0": work.agree(nonces, now()) or {}}
    assert work._intent is not None
    signed |= {str(i): sign(replace(work._intent, party=i), own) for i in (1, 2)}
    work._is_ready = True
    with pytest.raises(CertificateError, match="Party 1 has another certificate than this host holds"):
        work.go({name: Signed(**one) for name, one in signed.items()})
    with pytest.raises(HostUnfitError, match="whoever starts this run did not pass it on"):
        work.go({"0": Signed(**signed["0"])})
    assert spent(hosts[0]) == []


@pytest.mark.parametrize(
    "others",
    [
        {"asked": asked(epsilon="2")},
        {"asked": asked(population="others")},
        {"program_hash": "other"},
        {"uploads": "other"},
        {"inputs": {"clients": 2}},
        {"source": AGGREGATE},
        {"run": "1" * 32},
        {"started": "2027-01-01"},
        {"nonces": ["0", "1", "2"]},
    ],
)
def test_hosts_do_not_run_different_things(
    others: dict[str, Any], hosts: list[Path], stack: ExitStack
) -> None:
    """As a starter could ask each for something else, to open what one alone adds no noise to."""
    starter = Starter(hosts[0], stack)
    starter.prepared(asked())
    with pytest.raises(HostUnfitError, match=r"What party 1 signed is not this run: .* something else"):
        starter.go(hosts, **others)
    assert spent(hosts[0]) == []


def test_a_host_signs_for_one_run_at_a_time(hosts: list[Path], stack: ExitStack) -> None:
    """Else what it signed for one could let others begin another one."""
    work = Starter(hosts[0], stack).prepared(asked())
    with pytest.raises(HostUnfitError, match="not the one that it prepared"):
        work.agree(["0", "1", "2"], now())
    with (
        ExitStack() as other,
        pytest.raises(HostUnfitError, match=r"Another run is under way on it \(process"),
    ):
        Starter(hosts[0], other).prepared(asked(epsilon="2"))
    with ExitStack() as other:
        seen = Starter(hosts[0], other).work.check(0, MODEL.name, 0, [])
        assert seen["port"].startswith("Another run is under way on it (process")
        with pytest.raises(HostUnfitError, match="Another run is under way"):
            Starter(hosts[0], other).work.listen(0)
    with pytest.raises(HostUnfitError, match="agreed to no run"):
        work.go({})
    stack.close()
    with ExitStack() as other:
        Starter(hosts[0], other).prepared(asked(epsilon="2"))


@pytest.mark.parametrize(
    ("changes", "rules", "error", "said"),
    [
        ({"epsilon": "3"}, RULE, PolicyError, "epsilon_per_run = 2; this one needs ε = 2.9"),
        ({"delta": "1/1024"}, RULE + 'delta_per_run = "2^-30"', PolicyError, "delta_per_run"),
        ({}, RULE + 'tasks = ["gap"]', PolicyError, "does not allow 'weights' .*tasks: 'gap'"),
        ({}, RULE + 'models = ["ring"]', PolicyError, "does not allow 'mpyc' .*models: 'ring'"),
        ({}, RULE + 'unit = "client"', PolicyError, "does not allow 'record' .*unit: 'client'"),
        ({}, RULE + 'relation = "replace_one"', PolicyError, "wants relation = 'replace_one'"),
        ({"population": "laons"}, RULE, PolicyError, "no population 'laons' .did you mean loans"),
        ({"population": None}, RULE, PolicyError, "names no population 'unnamed'"),
        ({}, 'starters = ["alice"]\n' + RULE, PolicyError, "lets this ssh key, .* start nothing .starters."),
        ({"protocol": "pi_cf"}, RULE, OptionError, "none that this version knows"),
        ({"options": {"reweighing": "balanced"}, "protocol": "pi_lap"}, RULE, OptionError, "none that this"),
        ({"options": {"no": 1}}, RULE, OptionError, "none that this version knows"),
        ({"epsilon": "0"}, RULE, OptionError, "none that this version knows"),
        ({"epsilon": "1e9"}, RULE, OptionError, "none that this version knows"),
        ({"epsilon": "21"}, RULE.replace("= 2", "= 30").replace("= 4", "= 30"), OptionError, "No noise fits"),
        ({"input_form": "slots"}, RULE, OptionError, "none that this version knows"),
        ({"input_path": "clients"}, RULE, UnsupportedError, "needs MP-SPDZ"),
        ({"input_form": "product"}, RULE, ShareError, "takes product over"),
        ({"relation": "zero_out_one", "unit": "client"}, RULE, OptionError, "."),
    ],
)
def test_a_starter_chooses_nothing_that_the_owner_did_not_allow(
    changes: dict[str, Any],
    rules: str,
    error: type[Exception],
    said: str,
    hosts: list[Path],
    stack: ExitStack,
) -> None:
    """And nothing was charged, or is running, when it is refused; the connection is of no more use."""
    write_rules(hosts[0], rules)
    starter = Starter(hosts[0], stack)
    with pytest.raises(error, match=said) as raised:
        starter.prepared(asked(**changes))
    assert "\n" not in str(raised.value)
    with pytest.raises(HostUnfitError, match="has prepared no party"):
        starter.work.go({})
    assert spent(hosts[0]) == [] and starter.work._party is None


def test_forms_that_a_model_does_not_protect_are_refused(hosts: list[Path], stack: ExitStack) -> None:
    """One active server could reveal a client's value by multiplying plain shares."""
    run = asked(model="sy-rep-ring", input_form="product")
    with pytest.raises(UnsupportedError, match="which one active"):
        Starter(hosts[0], stack).prepared(run)


@pytest.mark.parametrize("name", ["protocol", "arguments", "fair_bits", "model", "epsilon"])
def test_program_arguments_and_noise_are_the_hosts_own(
    name: str, hosts: list[Path], stack: ExitStack
) -> None:
    work = Starter(hosts[0], stack).work
    said = {"run": "0" * 32, "party": 0, "addresses": [], name: []}
    with pytest.raises(HostUnfitError, match=f"unknown key '{name}'"):
        call(work.prepare, said, Refusal(HostUnfitError, "The request", "known", "no"))


@pytest.mark.parametrize(("party", "parties"), [(0, 2), (0, 4), (3, 3), (-1, 3)])
def test_a_run_has_all_parties_of_its_model(
    party: int, parties: int, hosts: list[Path], stack: ExitStack
) -> None:
    """A starter says where they are, not how many."""
    work = Starter(hosts[0], stack).work
    work.propose(asked())
    work.uploads.aggregate(0)
    with pytest.raises(HostUnfitError, match="asked for a run of other parties than its model has"):
        work.prepare("0" * 32, party, [("127.0.0.1", 0)] * parties)


def test_a_run_is_charged_before_its_party_may_go_and_stays_charged(hosts: list[Path]) -> None:
    class Failing(Party):
        charged: tuple[str, Fraction, Status]

        def go(self, _certificates: object) -> None:
            (self.charged,) = spent(hosts[0])
            raise KeyboardInterrupt

    failing = Failing()
    with pytest.raises(KeyboardInterrupt):
        ran(hosts, found=failing)
    name, epsilon, status = failing.charged
    assert name == "loans" and Fraction(99, 100) < epsilon <= 1 and status is Status.RUNNING
    assert [each[:2] for each in spent(hosts[0])] == [(name, epsilon)]


def test_repeats_are_charged_until_nothing_is_left(hosts: list[Path]) -> None:
    """The starter's own ledger, or none, changes nothing about that."""
    for count in range(1, 5):
        assert ran(hosts).gone
        assert len(spent(hosts[0])) == count
    with pytest.raises(BudgetError, match=r"has ε = .* left of its budget of 4,"):
        ran(hosts)
    assert ran(hosts, 1).gone  # of which only this host had a part


def test_a_budget_follows_the_policy(hosts: list[Path]) -> None:
    assert ran(hosts).gone
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1.5"'))
    with pytest.raises(BudgetError, match=r"of its budget of 1\.5,"):
        ran(hosts)
    write_rules(hosts[0], RULE)
    assert ran(hosts).gone


def test_another_name_for_the_same_uploads_is_no_new_budget(hosts: list[Path]) -> None:
    write_rules(hosts[0], RULE.replace("loans", "*"))
    assert ran(hosts).gone
    with pytest.raises(PopulationError, match="were charged to 'loans', not to 'others'"):
        ran(hosts, population="others")
    with pytest.raises(UsedUploadsError, match="went into a run before"):
        ran(hosts, population=None)


def test_a_connection_is_for_one_run(hosts: list[Path], stack: ExitStack) -> None:
    """What was checked stays what runs: no other release, no other inputs under the same charge."""
    work = Starter(hosts[0], stack).prepared(asked())
    for again in (
        lambda: work.propose(asked(epsilon="1/1000")),
        lambda: work.uploads.aggregate(0),
        lambda: work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * 3),
    ):
        with pytest.raises(HostUnfitError, match="already; a connection is for one run"):
            again()


def test_one_honest_host_is_enough_to_refuse(hosts: list[Path], stack: ExitStack) -> None:
    """The others, and the starter, do as they like: without its share nothing of a client can be opened."""
    write_rules(hosts[0], RULE.replace("loans", "others"))
    for i in (1, 2):
        write_rules(hosts[i], ANY_PORT + '[[population]]\nname = "*"\nepsilon = 1000000\ndelta = 0.5\n')
    with pytest.raises(PolicyError, match="names no population 'loans'"):
        Starter(hosts[0], stack).prepared(asked())
    for i in (1, 2):
        assert ran(hosts, i, epsilon="20").gone
    assert spent(hosts[0]) == [] and not list(hosts[0].glob(f"{PREFIX}*/party"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda host: (host / FILE).unlink(), "has no policy, so it runs nothing of another's"),
        (lambda host: (host / FILE).chmod(0o622), "Others can change .*policy.toml"),
        (lambda host: (host / FILE).write_text("epsilon = "), "is not a policy: it is not TOML"),
    ],
)
def test_without_a_policy_nothing_runs(damage: Any, said: str, hosts: list[Path], stack: ExitStack) -> None:
    damage(hosts[0])
    starter = Starter(hosts[0], stack)
    with pytest.raises(PolicyError, match=said):
        starter.prepared(asked())
    with pytest.raises(HostUnfitError, match="No release was proposed"):
        starter.work.uploads.aggregate(0)


def test_a_ledger_that_cannot_be_written_lets_no_party_go(hosts: list[Path], stack: ExitStack) -> None:
    starter, party = Starter(hosts[0], stack), Party()
    work = starter.prepared(asked())
    Ledger(hosts[0] / LEDGER).set_budget("others", Budget(Fraction(1)))  # so that there is a file
    assert work._guard is not None
    work._guard._ledger._database = replace(work._guard._ledger._database, timeout_s=0.1)
    with closing(sqlite3.connect(hosts[0] / LEDGER)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another program has kept it locked"):
            let_go(starter, work, hosts, party)
    assert not party.gone


def test_a_damaged_ledger_refuses_and_is_kept(hosts: list[Path], stack: ExitStack) -> None:
    (hosts[0] / LEDGER).write_bytes(b"not a ledger" * 100)
    with pytest.raises(LedgerError, match="it is no database, or its beginning is damaged"):
        Starter(hosts[0], stack).prepared(asked())
    assert (hosts[0] / LEDGER).read_bytes() == b"not a ledger" * 100


def test_starters_are_who_the_host_says(hosts: list[Path], stack: ExitStack) -> None:
    write_rules(hosts[0], 'starters = ["alice"]\n' + RULE)
    with pytest.raises(PolicyError, match="lets 'bob' start nothing"), ExitStack() as other:
        Starter(hosts[0], other, "bob").prepared(asked())
    Starter(hosts[0], stack, "alice").prepared(asked())


@pytest.mark.mpspdz("ring")
def test_clients_are_told_what_runs(hosts: list[Path]) -> None:
    """Whoever starts a run writes invitations as it likes; a host does not run one thing and tell another."""
    told: dict[str, Any] = {
        "task": "weights",
        "model": "ring",
        "input_form": "product",
        "domain": {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 10},
        "epsilon": "1",
        "delta": "1/1099511627776",
        "neighboring_relation": "add_or_remove_one",
    }
    form = PI_RW.input_forms["product"].by(CLIENTS)
    release = Release(get_model("ring"), form, Fraction(1), Fraction(1, 2**40))
    with free_ports(2) as (port, _):
        write_rules(hosts[0], f"client_port = {port}\n{RULE}")
    clients: dict[str, Any] = {"certificates": ["one", "two"], "ports": (port, port + 1), "seconds": 1.0}
    replaced = replace(release, relation=NeighboringRelation.REPLACE_ONE)
    cases: tuple[tuple[dict[str, Any], Any], ...] = (
        ({}, asked_of(WeightsStatistic(), replace(release, epsilon=Fraction(2)), "loans")),
        ({}, asked_of(WeightsStatistic(), replace(release, delta=Fraction(1, 1024)), "loans")),
        ({"epsilon": "2"}, None),
        ({"delta": "1/1024"}, None),
        ({"epsilon": "2/2"}, None),
        ({"model": "sy-rep-ring"}, None),
        ({"input_form": "split"}, None),
        ({"neighboring_relation": "replace_one"}, None),
        ({}, asked_of(WeightsStatistic(), replaced, "loans")),
    )
    right = asked_of(WeightsStatistic(), release, "loans")

    def prepare(run: Any, terms: dict[str, Any]) -> None:
        with ExitStack() as stack:
            work = Starter(hosts[0], stack).work
            work.propose(run)
            work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * 3, Sending(terms=terms, **clients))

    for changes, run in cases:
        with pytest.raises(HostUnfitError, match="something else than clients are told"):
            prepare(run or right, {**told, **changes})
    with pytest.raises(ShareError, match="for a run that this version can describe: it has an unknown key"):
        prepare(right, {**told, "note": "only you can read this"})
    prepare(right, told)


def test_a_starter_needs_inputs_of_the_hosts_own(hosts: list[Path], stack: ExitStack) -> None:
    work = Starter(hosts[0], stack).work
    work.propose(asked())
    with pytest.raises(HostUnfitError, match="before it had any inputs"):
        work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
    shutil.rmtree(hosts[0] / "shares")
    shutil.move(hosts[1] / "shares", hosts[0] / "shares")
    with pytest.raises(ShareError):
        work.uploads.aggregate(0)


ALLOWED = ClientPolicy(("weights",), "1", "1/1024", PrivacyUnit.RECORD)


def test_clients_that_do_not_allow_a_run_are_left_out(hosts: list[Path], tmp_path: Path) -> None:
    """What an upload has spent is added up by each host; a starter that leaves nobody out is refused."""
    one = share_more(hosts, tmp_path, ALLOWED)

    def run(**changes: Any) -> tuple[str, ...]:
        with ExitStack() as stack:
            starter = Starter(hosts[0], stack)
            work = starter.work
            work.propose(asked(**changes))
            starter.tell(hosts, asked(**changes))
            work.uploads.aggregate(0)
            work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
            assert work.uploads.inputs is not None
            let_go(starter, work, hosts)
            return work.uploads.inputs.batches

    assert one in run(epsilon="1/2") and one in run(epsilon="1/2")
    assert one not in run(epsilon="1/2")
    with pytest.raises(BudgetError, match="The policies of clients do not cover this run, in 1 of its 2"):
        ran(hosts, epsilon="1/2")


@pytest.mark.parametrize(
    ("allowed", "covered"),
    [
        (ALLOWED, True),
        (replace(ALLOWED, tasks=("gap",)), False),
        (replace(ALLOWED, unit=PrivacyUnit.CLIENT), False),
        (replace(ALLOWED, epsilon="9/10"), False),
        (replace(ALLOWED, delta="1/1000000000000000"), False),
    ],
)
def test_a_client_says_for_what_its_upload_may_be_used(
    allowed: ClientPolicy, covered: bool, hosts: list[Path], tmp_path: Path, stack: ExitStack
) -> None:
    one = share_more(hosts, tmp_path, allowed)
    work = Starter(hosts[0], stack).work
    work.propose(asked())
    report = listed(work)
    assert (one in report.sound_batches, report.unsound.get(one) == UNCOVERED) == (covered, not covered)


def share_more(hosts: list[Path], tmp_path: Path, allowed: ClientPolicy) -> str:
    """Give each host its share of one more upload, with its client's policy; return its identity."""
    form = PI_RW.input_forms["split"]
    batch = share(records(), form, shared_over(form, MODEL.domain), MODEL.parties, tmp_path / "more", allowed)
    for i, host in enumerate(hosts):
        for path in (tmp_path / "more" / f"party-{i}").iterdir():
            path.rename(host / "shares" / path.name)
    return batch


def test_what_the_owner_changes_counts_at_once(hosts: list[Path], stack: ExitStack) -> None:
    """Also for connections that were open before; they do not put the old budget back."""
    starter = Starter(hosts[0], stack)
    work = starter.prepared(asked())
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1/2"'))
    with pytest.raises(BudgetError, match=r"of its budget of 0\.5,"):
        let_go(starter, work, hosts)
    write_rules(hosts[0], 'starters = ["nobody"]\n' + RULE)
    with pytest.raises(PolicyError, match="start nothing"):
        work.admit("go")
    assert spent(hosts[0]) == []


def test_another_files_header_changes_no_clients_policy(hosts: list[Path], tmp_path: Path) -> None:
    """A file that is not what its name says has no say, in whatever order a directory lists them."""
    one = share_more(hosts, tmp_path, replace(ALLOWED, tasks=("gap",)))
    line, _, rest = (hosts[0] / "shares" / f"{one}.share").read_bytes().partition(b"\n")
    lax = {**json.loads(line), "policy": json.loads(line)["policy"] | {"tasks": ["weights"]}}
    for k in range(8):
        (hosts[0] / "shares" / f"{k}.share").write_bytes(json.dumps(lax).encode() + b"\n" + rest)
    with ExitStack() as stack:
        work = Starter(hosts[0], stack).work
        work.propose(asked())
        report = listed(work)
        assert report.unsound[one] == UNCOVERED


def test_uploads_that_come_after_the_check_are_judged_too(hosts: list[Path], tmp_path: Path) -> None:
    share_more(hosts, tmp_path, ALLOWED)
    with ExitStack() as stack:
        work = Starter(hosts[0], stack).work
        work.propose(asked())
        work.uploads.check_uploads(0, ANY.to_json())
        share_more(hosts, tmp_path / "late", replace(ALLOWED, tasks=("gap",)))
        work.uploads.aggregate(0)
        with pytest.raises(BudgetError, match="The policies of clients do not cover this run, in 1 of its 3"):
            work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)


def test_an_upload_of_another_kind_ends_nothing(hosts: list[Path], tmp_path: Path, stack: ExitStack) -> None:
    share_more(hosts, tmp_path, ALLOWED)
    work = Starter(hosts[0], stack).work
    work.propose(asked(GapStatistic(), input_form="split"))
    work.uploads.check_uploads(0, ANY.to_json())
    work.uploads.aggregate(0)
    with pytest.raises(ShareError, match="gap needs"):
        work.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)


def test_without_a_policy_nobody_asks_anything_but_whether_there_is_one(hosts: list[Path]) -> None:
    (hosts[0] / FILE).unlink()
    with ExitStack() as stack:
        work = Starter(hosts[0], stack, "alice").work
        work.admit("check")
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit("collect")
        (hosts[0] / FILE).symlink_to("nothing")
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit("check")


def test_whoever_may_start_nothing_may_ask_nothing(hosts: list[Path]) -> None:
    write_rules(hosts[0], 'starters = ["alice"]\n' + RULE)
    with ExitStack() as stack:
        Starter(hosts[0], stack, "alice").work.admit("state")
        for name in ("bob", ""):
            with pytest.raises(PolicyError, match="start nothing"):
                Starter(hosts[0], stack, name).work.admit("state")


@pytest.mark.parametrize(
    "options",
    [
        {"target": {"relative": 0.1, "least": 100, "most": 10**100}, "spec": "pi_count"},
        {"target": {"relative": float("nan"), "least": 1, "most": 2}, "spec": "pi_count"},
    ],
)
def test_small_requests_have_small_effects(
    options: dict[str, Any], hosts: list[Path], stack: ExitStack
) -> None:
    starter = Starter(hosts[0], stack)
    with pytest.raises(OptionError, match="none that this version knows"):
        starter.prepared(asked(task="count", protocol="pi_count", options=options))
    target = {"task": "weights", "epsilon": "1", "delta": "1/1024", "thresholds": 10**30}
    of_cap = {"target": target, "spec": "pi_cap"}
    with pytest.raises(OptionError, match="none that this version knows"):
        starter.prepared(asked(task="cap", protocol="pi_cap", options=of_cap))


def test_hosts_greet_agents_only(hosts: list[Path], stack: ExitStack) -> None:
    with pytest.raises(HostUnfitError, match="greetings that no agent gives"):
        Starter(hosts[0], stack).work.reach([("127.0.0.1", 22, "SSH-2.0-OpenSSH")])


def test_a_party_that_meets_nobody_is_given_up(
    hosts: list[Path], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge stays, as whoever holds it up may have heard from it; the starter is told why."""
    monkeypatch.setattr(work_module, "_MEET_S", -1.0)
    starter = Starter(hosts[0], stack)
    work = starter.prepared(asked())
    starter.work.start(600)
    starter.go(hosts)
    said: dict[str, Any] = {}

    def ended() -> bool:
        said.update(work.ended() or {})
        return bool(said)

    until(ended)
    assert said["code"] < 0 and "had not met all other parties" in said["lines"][-1]
    assert "signed" not in said and [status for *_, status in spent(hosts[0])] == [Status.ABORTED]
