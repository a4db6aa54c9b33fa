"""What a host does not do whoever starts runs on it: a row of the table in docs/how-to/hosts.md each."""

import hashlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.engines.parties.supervisor import free_ports
from harness.errors import (
    HostUnfitError,
    OptionError,
    PolicyError,
    ShareError,
    UnsupportedError,
)
from harness.hosts.party_run import Sending
from harness.hosts.policy import FILE
from harness.pipeline.sources import request_of_run, terms_of
from harness.system.documents import Refusal, call
from protocols.spec import CLIENTS
from tests.support.coordinators import (
    DOMAIN,
    MODEL,
    RULE,
    Coordinator,
    asked,
    spent,
    write_rules,
)


@pytest.mark.parametrize("request_", ["setup", "pin", "renew", "policy", "make_keys"])
def test_no_request_touches_keys_or_policy(request_: str, hosts: list[Path], stack: ExitStack) -> None:
    assert request_ not in Coordinator(hosts[0], stack).work.handlers


def test_whatever_is_asked_keys_and_policy_stay(hosts: list[Path], stack: ExitStack) -> None:
    before = digest(hosts[0])
    work = Coordinator(hosts[0], stack).prepared(asked())
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
        ({"input_form": "slots"}, RULE, ShareError, "takes slots over"),
        ({"input_path": "clients"}, RULE, UnsupportedError, "needs MP-SPDZ"),
        ({"input_form": "product"}, RULE, ShareError, "takes product over"),
        (
            {"neighboring_relation": "zero_out_one", "privacy_unit": "client"},
            RULE,
            ShareError,
            "takes slots over",
        ),
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
    coordinator = Coordinator(hosts[0], stack)
    with pytest.raises(error, match=said) as raised:
        coordinator.prepared(asked(**changes))
    assert "\n" not in str(raised.value)
    with pytest.raises(HostUnfitError, match=r"has prepared no party|asked for no run yet"):
        coordinator.work.run.go({})
    assert spent(hosts[0]) == []


def test_forms_that_a_model_does_not_protect_are_refused(hosts: list[Path], stack: ExitStack) -> None:
    """One active server could reveal a client's value by multiplying plain shares."""
    run = asked(security="sy-rep-ring", input_form="product")
    with pytest.raises(UnsupportedError, match="which one active"):
        Coordinator(hosts[0], stack).prepared(run)


@pytest.mark.parametrize("name", ["protocol", "arguments", "fair_bits", "model", "epsilon"])
def test_program_arguments_and_noise_are_the_hosts_own(
    name: str, hosts: list[Path], stack: ExitStack
) -> None:
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    said = {"run": "0" * 32, "party": 0, "addresses": [], name: []}
    with pytest.raises(HostUnfitError, match=f"unknown key '{name}'"):
        call(work.run.prepare, said, Refusal(HostUnfitError, "The request", "known", "no"))


@pytest.mark.parametrize(("party", "parties"), [(0, 2), (0, 4), (3, 3), (-1, 3)])
def test_a_run_has_all_parties_of_its_model(
    party: int, parties: int, hosts: list[Path], stack: ExitStack
) -> None:
    """A coordinator says where they are, not how many."""
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    work.release.uploads.aggregate(0)
    with pytest.raises(HostUnfitError, match="asked for a run of other parties than its model has"):
        work.run.prepare("0" * 32, party, [("127.0.0.1", 0)] * parties)


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
    coordinator = Coordinator(hosts[0], stack)
    with pytest.raises(PolicyError, match=said):
        coordinator.prepared(asked())
    with pytest.raises(HostUnfitError, match="No release was proposed"):
        coordinator.work.release.uploads.aggregate(0)


def test_starters_are_who_the_host_says(hosts: list[Path], stack: ExitStack) -> None:
    write_rules(hosts[0], 'coordinators = ["alice"]\n' + RULE)
    for name, said in (
        ("bob", "lets 'bob' start nothing"),
        ("", "lets this ssh key, .* nothing .coordinators."),
    ):
        with pytest.raises(PolicyError, match=said), ExitStack() as other:
            Coordinator(hosts[0], other, name).work.admit("state")
    Coordinator(hosts[0], stack, "alice").work.admit("state")


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
            work.propose(run)
            work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * 3, Sending(terms=terms, **clients))

    for changes, run in cases:
        with pytest.raises(HostUnfitError, match="something else than clients are told"):
            prepare(run or right, {**told, "request": {**told["request"], **changes}})
    with pytest.raises(ShareError, match="for a run that this version can describe: it has an unknown key"):
        prepare(right, {**told, "note": "only you can read this"})
    prepare(right, told)


def test_without_a_policy_nobody_asks_anything_but_whether_there_is_one(hosts: list[Path]) -> None:
    (hosts[0] / FILE).unlink()
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack, "alice").work
        work.admit("check")
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit("collect")
        (hosts[0] / FILE).symlink_to("nothing")
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit("check")


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "count", "error_to": "1" + "0" * 100},
        {"task": "count", "relative_error": "nan"},
        {"task": "cap", "release_epsilon": "1", "thresholds": "1" + "0" * 30},
        {"task": "cap", "release_epsilon": "1", "release": "counts", "counts": "1e30"},
        {"task": "weights", "horizon": "1e9"},
    ],
)
def test_small_requests_have_small_effects(
    fields: dict[str, str], hosts: list[Path], stack: ExitStack
) -> None:
    coordinator = Coordinator(hosts[0], stack)
    with pytest.raises(OptionError, match="none that this version knows"):
        coordinator.prepared({"epsilon": "1", "security": MODEL.name, "population": "loans", **fields})


def test_hosts_greet_agents_only(hosts: list[Path], stack: ExitStack) -> None:
    others = [["127.0.0.1", 22, "SSH-2.0-OpenSSH"]]
    with pytest.raises(HostUnfitError, match="matching regex"):
        call(
            Coordinator(hosts[0], stack).work.host.reach,
            {"others": others},
            Refusal(HostUnfitError, "The request", "known", "no"),
        )
