"""What a host does not do whoever starts runs on it: a row of the table in docs/how-to/hosts.md each."""

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


def test_whatever_is_asked_keys_and_policy_stay(hosts: list[Path], stack: ExitStack) -> None:
    def kept() -> dict[Path, bytes]:
        paths = [*(hosts[0] / "keys").rglob("*"), hosts[0] / FILE]
        return {path: path.read_bytes() for path in paths if path.is_file()}

    before = kept()
    work = Coordinator(hosts[0], stack).prepared(asked())
    assert not {"setup", "pin", "renew", "policy", "make_keys"} & work.handlers.keys()
    for handler in set(work.handlers.values()):
        for arguments in ({}, {"party": 1}, {"run": "0" * 32}):
            with ExitStack() as ignored:
                ignored.push(lambda *_: True)
                call(handler, dict(arguments), REFUSAL)
    assert kept() == before


REFUSAL = Refusal(HostUnfitError, "The request", "known", "no")


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
        ({"security": "sy-rep-ring", "input_form": "product"}, RULE, UnsupportedError, "which one active"),
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


def test_program_arguments_noise_and_greetings_are_the_hosts_own(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    for name in ("protocol", "arguments", "fair_bits", "model", "epsilon"):
        said = {"run": "0" * 32, "party": 0, "addresses": [], name: []}
        with pytest.raises(HostUnfitError, match=f"unknown key '{name}'"):
            call(work.run.prepare, said, REFUSAL)
    with pytest.raises(HostUnfitError, match="matching regex"):
        call(work.host.reach, {"others": [["127.0.0.1", 22, "SSH-2.0-OpenSSH"]]}, REFUSAL)


def test_a_run_has_all_parties_of_its_model(hosts: list[Path], stack: ExitStack) -> None:
    """A coordinator says where they are, not how many."""
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    work.release.uploads.aggregate(0)
    for party, parties in ((0, 2), (0, 4), (3, 3), (-1, 3)):
        with pytest.raises(HostUnfitError, match="asked for a run of other parties than its model has"):
            work.run.prepare("0" * 32, party, [("127.0.0.1", 0)] * parties)


def test_without_a_policy_nothing_runs(hosts: list[Path]) -> None:
    """Nobody asks anything then but whether there is one."""
    policy = hosts[0] / FILE
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
        work.admit("check")
        with pytest.raises(PolicyError, match="has no policy"):
            work.admit("collect")


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
