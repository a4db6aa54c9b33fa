"""What no host does whoever starts runs on it, what hosts agree on before a run, and what each charges."""

import hashlib
import json
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import (
    BudgetError,
    CertificateError,
    HostUnfitError,
    LedgerError,
    OptionError,
    PolicyError,
    ShareError,
    UnsupportedError,
    UsedUploadsError,
)
from fairshares.harness.hosts import party_run
from fairshares.harness.hosts.guard import hash_of_names
from fairshares.harness.hosts.messages import (
    Aggregate,
    Check,
    Collect,
    GetCertificate,
    Go,
    Listen,
    Listener,
    PartyEnd,
    Propose,
    Reach,
    Sending,
    Start,
)
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE
from fairshares.harness.hosts.signed_results import InputSource, sign
from fairshares.harness.hosts.states import State
from fairshares.harness.pipeline.sources import request_of_run, terms_of
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.system.files import PREFIX
from fairshares.protocols.guarantee import Budget
from fairshares.protocols.json_values import JsonObject
from fairshares.protocols.spec import CLIENTS
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    MODEL,
    RULE,
    Coordinator,
    Party,
    answered,
    asked,
    let_go,
    nonces_of,
    ran,
    run_of,
    spent,
    stand_in,
    to_agree,
    to_go,
    to_prepare,
    to_prepare_invited,
    write_rules,
)
from tests.support.running import until

pytestmark = pytest.mark.usefixtures("in_shell")


def test_a_host_is_not_set_among_a_starters_own(hosts: list[Path], stack: ExitStack, tmp_path: Path) -> None:
    """It runs with the parties whose certificates its owner accepted, and charges nothing for others."""
    coordinator = Coordinator(hosts[0], stack)
    coordinator.prepared(asked())
    own = make_key(tmp_path, "P1", "MPyC party 1")
    work = coordinator.work
    stand_in(work)
    signed = {"0": answered(work, to_agree(nonces_of(work)))}
    signed |= {str(i): sign(replace(run_of(work).intent, party=i), own) for i in (1, 2)}
    with pytest.raises(CertificateError, match="Party 1 has another certificate than this host holds"):
        answered(work, to_go(signed))
    with pytest.raises(HostUnfitError, match="whoever starts this run did not pass it on"):
        answered(work, to_go({"0": signed["0"]}))
    assert spent(hosts[0]) == []


def test_hosts_do_not_run_different_things(hosts: list[Path]) -> None:
    """As a coordinator could ask each for something else, to open what one alone adds no noise to."""
    for others in (
        {"asked": asked(epsilon="2")},
        {"asked": asked(population="others")},
        {"program_hash": "other"},
        {"uploads": "other"},
        {"inputs": {"clients": 2}},
        {"source": InputSource.AGGREGATE},
        {"run": "1" * 32},
        {"started": "2027-01-01"},
        {"nonces": ["0", "1", "2"]},
    ):
        with ExitStack() as stack:
            coordinator = Coordinator(hosts[0], stack)
            coordinator.prepared(asked())
            with pytest.raises(
                HostUnfitError, match=r"What party 1 signed is not this run: .* something else"
            ):
                coordinator.go(hosts, **others)
    assert spent(hosts[0]) == []


def test_a_host_signs_for_one_run_at_a_time(hosts: list[Path], stack: ExitStack) -> None:
    """Else what it signed for one could let others begin another one."""
    work = Coordinator(hosts[0], stack).prepared(asked())
    stand_in(work)
    with pytest.raises(HostUnfitError, match="not the one that it prepared"):
        answered(work, to_agree([f"{party:032}" for party in range(3)]))
    with (
        ExitStack() as other,
        pytest.raises(HostUnfitError, match=r"Another run is under way on it \(process"),
    ):
        Coordinator(hosts[0], other).prepared(asked(epsilon="2"))
    with ExitStack() as other:
        seen = Coordinator(hosts[0], other).work.host.check(
            Check(party=0, security=MODEL.name, port=0, client_ports=[])
        )
        assert (seen.port or "").startswith("Another run is under way on it (process")
        with pytest.raises(HostUnfitError, match="Another run is under way"):
            Coordinator(hosts[0], other).work.host.listen(Listen(port=0))
    with pytest.raises(HostUnfitError, match=f"as {State.READY}"):
        answered(work, to_go({}))
    stack.close()
    with ExitStack() as other:
        Coordinator(hosts[0], other).prepared(asked(epsilon="2"))


def test_a_connection_is_for_one_run(hosts: list[Path], stack: ExitStack) -> None:
    """What was checked stays what runs: no other release, no other inputs under the same charge."""
    work = Coordinator(hosts[0], stack).prepared(asked())
    for again in (Propose(asked=asked(epsilon="1/1000")), Aggregate(party=0), to_prepare(0)):
        with pytest.raises(HostUnfitError, match="nothing was changed: a connection is for one run"):
            answered(work, again)


def test_one_honest_host_is_enough_to_refuse(hosts: list[Path]) -> None:
    """The others, and the coordinator, do as they like: without its list nothing is counted."""
    write_rules(hosts[0], RULE.replace("loans", "others"))
    for i in (1, 2):
        write_rules(hosts[i], ANY_PORT + '[[population]]\nname = "*"\nepsilon = 1000000\ndelta = 0.5\n')
    for i in range(3):
        with pytest.raises(PolicyError, match="names no population 'loans'"):
            ran(hosts, i, epsilon="20")
    assert not any(map(spent, hosts)) and not list(hosts[0].glob(f"{PREFIX}*/party"))


def test_a_party_that_meets_nobody_is_given_up(
    hosts: list[Path], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge stays, as whoever holds it up may have heard from it; the coordinator is told why."""
    monkeypatch.setattr(party_run, "_MEET_S", -1.0)
    coordinator = Coordinator(hosts[0], stack)
    work = coordinator.prepared(asked())
    answered(coordinator.work, Start())
    assert answered(coordinator.work, GetCertificate(seconds=600))
    coordinator.go(hosts)
    ends: list[PartyEnd] = []

    def ended() -> bool:
        end = work.ended()
        ends.extend([end] if end is not None else [])
        return bool(ends)

    until(ended)
    assert ends[0].code < 0 and "had not met all other parties" in ends[0].state.lines[-1]
    assert ends[0].signed is None and [status for *_, status in spent(hosts[0])] == [Status.ABORTED]


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
    assert [charge[:2] for charge in spent(hosts[0])] == [(name, epsilon)]


def test_repeats_are_charged_until_nothing_is_left(hosts: list[Path]) -> None:
    """The coordinator's own ledger, or none, changes nothing about that."""
    for count in range(1, 5):
        assert ran(hosts).gone and len(spent(hosts[0])) == count
    with pytest.raises(BudgetError, match=r"has ε = .* left of its budget of 4,"):
        ran(hosts)
    assert ran(hosts, 1).gone  # of which only this host had a part


def test_what_the_owner_changes_counts_at_once(hosts: list[Path], stack: ExitStack) -> None:
    """Also for connections that were open before; they do not put the old budget back."""
    coordinator = Coordinator(hosts[0], stack)
    work = coordinator.prepared(asked())
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1/2"'))
    with pytest.raises(PolicyError, match=r"epsilon = 0\.5, the total of all runs; this one needs"):
        let_go(coordinator, work, hosts)  # it signs nothing, so that whoever starts the run charges nothing
    write_rules(hosts[0], RULE)
    signed = coordinator.signed(hosts)
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1/2"'))
    with pytest.raises(PolicyError, match=r"epsilon = 0\.5, the total of all runs; this one needs"):
        answered(work, to_go(signed))
    write_rules(hosts[0], 'coordinators = ["nobody"]\n' + RULE)
    with pytest.raises(PolicyError, match="start nothing"):
        work.admit(Go)
    assert spent(hosts[0]) == []


def test_a_run_of_nobody_keeps_to_the_total(hosts: list[Path]) -> None:
    """With a limit of a run above it, as a policy of 1.0 may have: the smaller counts, at every host."""
    shipped = f'{ANY_PORT}[[population]]\nname = "*"\nepsilon = 1\ndelta = "2^-20"\nepsilon_per_run = 4\n'
    for host in hosts:
        write_rules(host, shipped)
    for population in (None, "loans"):
        with pytest.raises(PolicyError, match=r"epsilon = 1, the total of all runs; this one needs ε = 3\.8"):
            ran(hosts, population=population, epsilon="39/10")
    assert spent(hosts[0]) == []
    assert ran(hosts, population=None).gone


def test_another_name_for_the_same_uploads_is_no_new_budget(hosts: list[Path]) -> None:
    for host in hosts:
        write_rules(host, RULE.replace("loans", "*"))
    assert ran(hosts).gone
    for population in ("others", None):
        with pytest.raises(
            UsedUploadsError, match=r"Earlier runs counted all 1 uploads .* --population that"
        ):
            ran(hosts, population=population)


def test_a_ledger_that_cannot_be_written_lets_no_party_go(hosts: list[Path], stack: ExitStack) -> None:
    coordinator, party = Coordinator(hosts[0], stack), Party()
    work = coordinator.prepared(asked())
    Ledger(hosts[0] / LEDGER).set_budget("others", Budget(Fraction(1)))  # so that there is a file
    run_of(work).planned.guard.ledger.timeout_s = 0.1
    with closing(sqlite3.connect(hosts[0] / LEDGER)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another program has kept it locked"):
            let_go(coordinator, work, hosts, party)
    assert not party.gone


def test_whatever_is_asked_keys_and_policy_stay(hosts: list[Path], stack: ExitStack) -> None:
    def kept() -> dict[Path, bytes]:
        paths = [*(hosts[0] / "keys").rglob("*"), hosts[0] / POLICY_FILE]
        return {path: path.read_bytes() for path in paths if path.is_file()}

    before = kept()
    work = Coordinator(hosts[0], stack).prepared(asked())
    assert not {"setup", "pin", "renew", "policy", "make_keys"} & work.handlers.keys()
    each: tuple[JsonObject, ...] = ({}, {"party": 1}, {"run": "0" * 32})
    for name in [*work.handlers]:
        for fields in each:
            with ExitStack() as ignored:
                ignored.push(lambda *_: True)
                work.handlers[name].answer(fields)  # a state that has no such message answers nothing
    assert kept() == before


@pytest.mark.parametrize(
    ("changes", "rules", "error", "said"),
    [
        ({"epsilon": "3"}, RULE, PolicyError, "epsilon_per_run = 2; this one needs ε = 2.9"),
        ({"delta": "1/1024"}, RULE + 'delta_per_run = "2^-30"', PolicyError, "delta_per_run"),
        ({}, RULE + 'tasks = ["gap"]', PolicyError, "does not allow 'weights' .*tasks: 'gap'"),
        ({}, RULE + 'security = ["ring"]', PolicyError, "does not allow 'mpyc' .*security: 'ring'"),
        ({}, RULE + 'unit = "client"', PolicyError, "does not allow 'record' .*unit: 'client'"),
        ({}, RULE + 'relation = "replace_one"', PolicyError, "wants relation = 'replace_one'"),
        ({"population": "laons"}, RULE, PolicyError, "no population 'laons' .did you mean loans"),
        ({"population": None}, RULE, PolicyError, "names no population 'unnamed'"),
        ({"task": "pi_cf"}, RULE, OptionError, "none that this version knows"),
        ({"task": "noise"}, RULE, OptionError, "none that this version knows"),
        ({"reweighing": "heavy"}, RULE, OptionError, "none that this version knows"),
        ({"records": "/etc/passwd"}, RULE, OptionError, "none that this version knows"),
        ({"security": None}, RULE, OptionError, "names no model"),
        ({"epsilon": "0"}, RULE, OptionError, "none that this version knows"),
        ({"epsilon": "1e9"}, RULE, OptionError, "none that this version knows"),
        ({"epsilon": "21"}, RULE, OptionError, "none that this version knows"),
        ({"input_form": "keys"}, RULE, OptionError, "none that this version knows"),
        ({"input_form": "slots"}, RULE, ShareError, "this run would be of model mpyc, as slots"),
        ({"input_path": "clients"}, RULE, UnsupportedError, "needs MP-SPDZ"),
        ({"input_form": "product"}, RULE, ShareError, "this run would be of model mpyc, as product"),
        ({"security": "sy-rep-ring", "input_form": "product"}, RULE, UnsupportedError, "which one active"),
        (
            {"neighboring_relation": "zero_out_one", "privacy_unit": "client"},
            RULE,
            ShareError,
            "this run would be of model mpyc, as slots",
        ),
    ],
)
def test_a_starter_chooses_nothing_that_the_owner_did_not_allow(
    *,
    changes: dict[str, Any],
    rules: str,
    error: type[Exception],
    said: str,
    hosts: list[Path],
    stack: ExitStack,
) -> None:
    """And nothing was charged, or is running, when it is refused; the connection is of no more use."""
    write_rules(hosts[0], rules)
    coordinator = Coordinator(hosts[0], stack)
    with pytest.raises(error, match=said) as raised:
        coordinator.prepared(asked(**changes))
    assert "\n" not in str(raised.value)
    with pytest.raises(HostUnfitError, match="does not answer 'go' now"):
        answered(coordinator.work, to_go({}))
    assert spent(hosts[0]) == []


def test_program_arguments_noise_and_greetings_are_the_hosts_own(hosts: list[Path], stack: ExitStack) -> None:
    coordinator = Coordinator(hosts[0], stack)
    coordinator.aggregated(asked())
    work = coordinator.work
    for name in ("protocol", "arguments", "fair_bits", "model", "epsilon"):
        said: dict[str, Any] = {"run": "0" * 32, "party": 0, "addresses": [], name: []}
        with pytest.raises(HostUnfitError, match=f"unknown key '{name}'"):
            work.handlers["prepare"].answer(said)
    with pytest.raises(HostUnfitError, match="matching regex"):
        answered(work, Reach(others=[Listener(address="127.0.0.1", port=22, greeting="SSH-2.0-OpenSSH")]))


def test_a_run_has_all_parties_of_its_model(hosts: list[Path], stack: ExitStack) -> None:
    """A coordinator says where they are, not how many."""
    coordinator = Coordinator(hosts[0], stack)
    coordinator.aggregated(asked())
    work = coordinator.work
    for party, parties in ((0, 2), (0, 4), (3, 3)):
        with pytest.raises(HostUnfitError, match="asked for a run of other parties than its model has"):
            answered(work, to_prepare(party, parties=parties))


def test_without_a_policy_nothing_runs(hosts: list[Path]) -> None:
    """Nobody asks anything then but whether there is one."""
    policy = hosts[0] / POLICY_FILE
    for damage, said in (
        (lambda: policy.write_text("epsilon = "), "is not a policy: it is not TOML"),
        (lambda: policy.chmod(0o622), "Others can change .*policy.toml"),
        (policy.unlink, "has no policy, so it runs nothing of another's"),
    ):
        damage()
        with ExitStack() as stack, pytest.raises(PolicyError, match=said):
            Coordinator(hosts[0], stack).prepared(asked())
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack, "alice").work
        work.admit(Check)
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit(Collect)


def test_starters_are_who_the_host_says(hosts: list[Path], stack: ExitStack) -> None:
    write_rules(hosts[0], 'coordinators = ["alice"]\n' + RULE)
    for name, said in (
        ("bob", "lets 'bob' start nothing"),
        ("", "lets this ssh key, .* nothing .coordinators."),
    ):
        with pytest.raises(PolicyError, match=said), ExitStack() as other:
            Coordinator(hosts[0], other, name).work.admit(Collect)
    Coordinator(hosts[0], stack, "alice").work.admit(Collect)


@pytest.mark.mpspdz("ring")
def test_clients_are_told_what_runs(hosts: list[Path]) -> None:
    """Whoever starts a run writes invitations as it likes; a host does not run one thing and tell another."""
    right = asked(security="ring", input_form="product", input_path=CLIENTS.name)
    told: dict[str, Any] = terms_of(request_of_run(right), DOMAIN)
    with free_ports(2) as (port, _):
        write_rules(hosts[0], f"client_port = {port}\n{RULE}")
    clients: dict[str, Any] = {"certificates": ["one", "two"], "ports": (port, port + 1), "seconds": 1.0}
    cases: tuple[tuple[dict[str, Any], Any], ...] = (
        ({}, {**right, "epsilon": "2"}),
        ({}, {**right, "delta": "1/1024"}),
        ({"epsilon": "2"}, None),
        ({"delta": "1/1024"}, None),
        ({"epsilon": "2/2"}, None),
        ({"security": "sy-rep-ring"}, None),
        ({"input_form": "split"}, None),
        ({"neighboring_relation": "replace_one"}, None),
        ({}, {**right, "neighboring_relation": "replace_one"}),
    )

    def prepare(run: Any, terms: dict[str, Any]) -> None:
        with ExitStack() as stack:
            work = Coordinator(hosts[0], stack).work
            work.propose(Propose(asked=run))
            answered(work, to_prepare_invited(0, Sending(terms=terms, **clients)))

    for changes, run in cases:
        with pytest.raises(HostUnfitError, match="something else than clients are told"):
            prepare(run or right, {**told, "request": {**told["request"], **changes}})
    with pytest.raises(ShareError, match="for a run that this version can describe: it has an unknown key"):
        prepare(right, {**told, "note": "only you can read this"})
    prepare(right, told)


def test_small_requests_have_small_effects(hosts: list[Path]) -> None:
    for fields in (
        {"task": "count", "error_to": "1" + "0" * 100},
        {"task": "count", "relative_error": "nan"},
        {"task": "cap", "release_epsilon": "1", "thresholds": "1" + "0" * 30},
        {"task": "cap", "release_epsilon": "1", "release": "counts", "counts": "1e30"},
        {"task": "weights", "horizon": "1e9"},
    ):
        with ExitStack() as stack, pytest.raises(OptionError, match="none that this version knows"):
            Coordinator(hosts[0], stack).prepared(
                {"epsilon": "1", "security": MODEL.name, "population": "loans", **fields}
            )


@pytest.mark.parametrize("number", [0, 1, 4096, 4097, 10_000])
def test_names_are_hashed_as_a_list_in_json(number: int) -> None:
    """Hosts and verifiers of any 1.x hash the whole list."""
    names = [f"{i:064x}" for i in range(number)]
    expected = hashlib.sha256(json.dumps(names).encode()).hexdigest()
    assert hash_of_names(iter(names)) == expected
