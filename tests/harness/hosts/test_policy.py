"""What is on a host: keys, held certificates, `hosts.toml` and policy; each mistake in them is named."""

import json
import os
import re
import shutil
import stat
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.registry import engines
from fairshares.harness.errors import CertificateError, HostsFileError, HostUnfitError, PolicyError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.decision import Contact, Release, Rule, allowed, decide
from fairshares.harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from fairshares.harness.hosts.policy import (
    POLICY_FILE,
    checked_policy,
    first_policy,
    read_policy,
    write_policy,
)
from fairshares.harness.hosts.setup import set_up_here
from fairshares.harness.releases.registry import OF_UPLOADS
from fairshares.harness.security_models import get_model
from tests.support.coordinators import RULE, Refused, agents, asked, make_hosts, write_rules

DEFAULT = first_policy(["mpyc"])


def test_a_first_policy_names_all_tasks_that_it_may_limit_runs_to() -> None:
    assert f"# {', '.join(OF_UPLOADS)}; without this line, all" in DEFAULT


def rule_for(host: Path, population: str) -> Rule:
    """Return the rule of a host for weights of a population in mpyc."""
    rule = allowed(decide(read_policy(host).host_rules, "", Release("weights", "mpyc", "record", population)))
    assert rule is not None
    return rule


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir(mode=0o700)
    return tmp_path / "host"


def test_the_default_covers_every_population_within_limits(host: Path) -> None:
    write_policy(host, DEFAULT)
    assert (host / POLICY_FILE).stat().st_mode & 0o777 == 0o600
    rule = rule_for(host, "whoever")
    assert (rule.total.epsilon, rule.total.delta) == (Fraction(10), Fraction(1, 2**30))
    assert (rule.per_run.epsilon, rule.per_run.delta) == (Fraction(4), Fraction(1, 2**36))
    assert (rule.tasks, rule.security) == (tuple(OF_UPLOADS), ("mpyc",))


def test_every_commented_line_of_the_default_is_one_that_may_be_used(host: Path) -> None:
    lines = [line.removeprefix("# ") if " = " in line else line for line in DEFAULT.splitlines()]
    write_policy(host, "\n".join(lines))
    with pytest.raises(PolicyError, match="lets 'bob' start nothing"):
        allowed(decide(read_policy(host).host_rules, "bob", Contact()))


def test_limits_are_exact_however_they_are_written(host: Path) -> None:
    for text in ("0.1", '"0.1"', '"1/10"', "1e-1"):
        write_policy(host, RULE.replace("epsilon = 4", f"epsilon = {text}"))
        assert read_policy(host).host_rules.rules[0].total.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RULE + "espilon = 1\n", "unknown key 'espilon' .did you mean epsilon"),
        (RULE.replace("= 4", '= "much"'), "epsilon of population 'loans' must be a number above 0.* 'much'"),
        (RULE.replace("= 4", "= 0"), "must be a number above 0, for example 1; got '0'"),
        (RULE.replace("= 4", "= inf"), "must be a number above 0, for example 1; got 'inf'"),
        (RULE.replace("= 4", "= true"), "epsilon"),
        (RULE.replace('"2^-20"', "1"), "delta of population 'loans' must be a number above 0 and below 1"),
        (RULE + 'delta_per_run = "x"', "delta_per_run of population 'loans' must be a number"),
        (RULE + 'tasks = ["wieghts"]', "There is no task 'wieghts' .did you mean weights"),
        (RULE + 'security = ["rign"]', "There is no security model 'rign' .did you mean ring"),
        (RULE + 'unit = "person"', "There is no unit 'person'; it is one of 'record', 'client'"),
        (RULE + 'relation = "replace"', "There is no relation 'replace' .did you mean replace_one"),
        (RULE + RULE.replace("loans", "Loans"), "has two tables; leave one"),
        (RULE + RULE.replace("loans", "*"), "allows what the other tables forbid"),
        ("[[populations]]\n", "population"),
        ("", "population"),
        ("x", "is not TOML"),
        ("coordinators = 1\n" + RULE, "coordinators"),
    ],
)
def test_mistakes_are_named(text: str, said: str, host: Path) -> None:
    """The policy that was there stays as it was."""
    write_policy(host, DEFAULT)
    with pytest.raises(PolicyError, match=said) as raised:
        write_policy(host, text)
    assert "\n" not in str(raised.value) and str(raised.value).startswith(POLICY_FILE)
    assert (host / POLICY_FILE).read_text() == DEFAULT
    (host / "mine").write_text(text)
    with pytest.raises(PolicyError, match="mine"):
        checked_policy(host / "mine", str(host / "mine"))


def test_a_policy_is_its_owners_alone(host: Path) -> None:
    write_policy(host, DEFAULT)
    (host / POLICY_FILE).chmod(0o660)
    with pytest.raises(PolicyError, match=r"Others can change .*policy\.toml; .* chmod go-w"):
        read_policy(host)
    (host / POLICY_FILE).chmod(0o600)
    host.chmod(0o777)
    with pytest.raises(PolicyError, match="Others can change"):
        read_policy(host)
    host.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(host / POLICY_FILE, 1, 1)
        with pytest.raises(PolicyError, match="Others can change"):
            read_policy(host)


HOST = (
    '[[host]]\nparty = {}\naddress = "10.0.0.{}"\ndirectory = "/srv/fs"\nproject = "/srv/FS"\nport = 12000\n'
)


def write(path: Path, *texts: str) -> Path:
    (path / "hosts.toml").write_text("\n".join(texts))
    return path / "hosts.toml"


def test_hosts_come_in_the_order_of_their_parties(tmp_path: Path) -> None:
    more = 'ssh_user = "u"\nssh_port = 2222\nreached_at = "203.0.113.7:12001"\nclient_port = 12100\n'
    read = read_hosts(write(tmp_path, HOST.format(1, 7) + more, HOST.format(0, 6)))
    assert read == [
        Host(0, "10.0.0.6", "/srv/fs", "/srv/FS", 12000),
        Host(
            *(1, "10.0.0.7", "/srv/fs", "/srv/FS", 12000, "u", 2222),
            reached_at="203.0.113.7:12001",
            client_port=12100,
        ),
    ]
    assert [host.client_ports for host in read] == [(), (12100, 12101)]
    assert read[1].client_reached == ("10.0.0.7", 12100)
    assert [host.reached for host in read] == [("10.0.0.6", 12000), ("203.0.113.7", 12001)]
    assert (read[0].name, read[1].title) == ("host 10.0.0.6 (party 0)", "Host 10.0.0.7 (party 1)")


def test_a_port_alone_is_reached_at_the_hosts_address() -> None:
    host = Host(0, "a.example", "/d", "/p", 12000, reached_at="443", client_port=1, client_reached_at="444")
    assert (host.reached, host.client_reached) == (("a.example", 443), ("a.example", 444))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["party = "], "is not TOML"),
        (
            ["hosts = 1"],
            r"missing required field `host` \(it has 'hosts': did you mean host\?\); the page on several",
        ),
        (["[[host]]", "party = 0"], r"missing required field `address` at `host\[0\]`"),
        ([HOST.format(0, 1) + "pary = 1"], r"unknown key 'pary' \(did you mean party\?\)"),
        (
            ["[[host]]", "party = 0", "adress = '10.0.0.1'"],
            r"`address` at `host\[0\]` \(it has 'adress': did you mean address\?\)",
        ),
        ([HOST.format(0, 1).replace("12000", '"12000"')], r"expected `int`, got `str` at `host\[0\].port`"),
        ([HOST.format(0, 1).replace("12000", "70000")], "a port is a number from 1 to 65535"),
        ([HOST.format(0, 1).replace('"/srv/fs"', '"fs"')], "directory must be an absolute path"),
        ([HOST.format(0, 1).replace("10.0.0.1", "-oProxyCommand=x")], "address must be a name"),
        ([HOST.format(0, 1) + 'reached_at = "a:b:c"'], "0: reached_at must be address:port"),
        ([HOST.format(0, 1) + 'client_port = 1\nclient_reached_at = "a:b:c"'], "client_reached_at must be"),
        ([HOST.format(0, 1) + "client_reached_at = '443'"], "client_reached_at needs client_port"),
        *(
            ([HOST.format(0, 1) + f"client_port = {port}"], f"other ones than port; got {port}")
            for port in (-1, 11999, 12000, 65535)
        ),
        ([HOST.format(0, 1), HOST.format(0, 2)], "must number its parties 0, 1, 2"),
        ([HOST.format(1, 1)], "must number its parties 0, 1, 2"),
    ],
)
def test_mistakes_in_hosts_are_named(texts: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(HostsFileError, match=said):
        read_hosts(write(tmp_path, *texts))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostsFileError, match="Cannot read"):
        read_hosts(tmp_path / "none.toml")


def test_a_model_runs_on_the_first_hosts_and_not_on_too_few(tmp_path: Path) -> None:
    three = read_hosts(write(tmp_path, *(HOST.format(i, i) for i in range(3))))
    assert hosts_for(get_model("semi2k"), three, tmp_path) == three[:2]
    assert (default_model(three).name, default_model(three[:2]).name) == ("ring", "semi2k")
    with pytest.raises(HostsFileError, match="has hosts for 3 parties, model rep4-ring has 4"):
        hosts_for(get_model("rep4-ring"), three, tmp_path)


def certificates(*made: dict[str, str]) -> dict[str, dict[int, str]]:
    return {name: {i: texts[name] for i, texts in enumerate(made)} for name in engines()}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, dict[str, dict[int, str]]]:
    """Return the directories of two hosts that know each other, and their certificates."""
    one, other = tmp_path / "one", tmp_path / "other"
    certified = certificates(
        host_keys.make_keys(one, 0, renew=False), host_keys.make_keys(other, 1, renew=False)
    )
    host_keys.pin(one, 0, certified)
    host_keys.pin(other, 1, certified)
    return one, other, certified


def test_keys_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    first = host_keys.make_keys(tmp_path / "host", 1, renew=False)
    assert host_keys.make_keys(tmp_path / "host", 1, renew=False) == first
    assert host_keys.own_certificates(tmp_path / "host", 1) == first
    made = list((tmp_path / "host").rglob("*.key"))
    assert len(made) == 2 and {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "host").stat().st_mode) == 0o700
    assert all("PRIVATE" not in text for text in first.values())


def test_new_keys_hold_the_others_certificates(pair: tuple[Path, Path, dict[str, dict[int, str]]]) -> None:
    one, _, certified = pair
    renewed = host_keys.make_keys(one, 0, renew=True)
    assert all(renewed[name] != certified[name][0] for name in renewed)
    assert host_keys.pinned(one) == {name: {1: held[1]} for name, held in certified.items()}
    assert [path.name for path in one.iterdir()] == ["keys"]


def test_another_partys_directory_is_refused(tmp_path: Path) -> None:
    host_keys.make_keys(tmp_path, 1, renew=False)
    with pytest.raises(HostUnfitError, match="was set up for party 1, not 0"):
        host_keys.make_keys(tmp_path, 0, renew=False)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    host_keys.make_keys(tmp_path, 0, renew=False)
    (tmp_path / "keys" / "mp-spdz" / "P0.key").chmod(0o640)
    with pytest.raises(HostUnfitError, match=r"P0\.key can be read by others"):
        host_keys.own_certificates(tmp_path, 0)


def test_a_held_certificate_gives_way_to_no_other(
    pair: tuple[Path, Path, dict[str, dict[int, str]]], tmp_path: Path
) -> None:
    """OpenSSL trusts all that a file holds, and people compare the fingerprint of the first."""
    one, other, certified = pair
    renewed = certificates(
        {name: certified[name][0] for name in certified}, host_keys.make_keys(other, 1, renew=True)
    )
    with pytest.raises(CertificateError, match="Party 1 has another certificate now than this host holds"):
        host_keys.pin(one, 0, renewed)
    assert host_keys.pinned(one)["mp-spdz"] == {1: certified["mp-spdz"][1]}
    one_more = make_key(tmp_path, "more", "P1").read_text()
    host_keys.make_keys(tmp_path / "third", 0, renew=False)
    with pytest.raises(CertificateError):
        host_keys.pin(
            tmp_path / "third", 0, {name: {1: held[1] + one_more} for name, held in certified.items()}
        )


def test_what_a_run_needs_is_there_and_valid(
    pair: tuple[Path, Path, dict[str, dict[int, str]]], tmp_path: Path
) -> None:
    one, _, _ = pair
    host_keys.RunKeys(one, get_model("semi2k")).check(0)
    with pytest.raises(HostUnfitError, match="No certificate of party 2"):
        host_keys.RunKeys(one, get_model("ring")).check(0)
    place = one / "keys" / "mp-spdz" / "peers" / "P1.pem"
    shutil.copyfile(make_key(tmp_path, "late", "P1", timedelta(minutes=-5)), place)
    with pytest.raises(CertificateError, match=r"The certificate of party 1 .* expired on .* --renew"):
        host_keys.RunKeys(one, get_model("semi2k")).check(0)
    shutil.copyfile(make_key(tmp_path, "other", "P0"), place)
    with pytest.raises(CertificateError, match="was made for another party than P1"):
        host_keys.RunKeys(one, get_model("semi2k")).check(0)
    place.write_text("none")
    with pytest.raises(CertificateError, match="is not a certificate"):
        host_keys.RunKeys(one, get_model("semi2k")).check(0)


def test_a_policy_stays_unless_another_is_given(tmp_path: Path) -> None:
    set_up_here(tmp_path / "host", 0, renew=False, policy_text=RULE, others=[], models=[])
    set_up_here(tmp_path / "host", 0, renew=True, policy_text=None, others=[], models=["ring"])
    assert (tmp_path / "host" / POLICY_FILE).read_text() == RULE
    with pytest.raises(PolicyError):
        set_up_here(tmp_path / "host", 0, renew=False, policy_text="x", others=[], models=[])
    assert (tmp_path / "host" / POLICY_FILE).read_text() == RULE


def set_up_with(host: Path, other: Path) -> None:
    set_up_here(host, 0, renew=False, policy_text=None, others=[other], models=["ring"])


def test_what_a_file_says_of_nothing_is_none(host: Path, tmp_path: Path) -> None:
    """Version 1.0 took "" and 0 for none, so files may have them, and what `--json` prints has them, too."""
    nothing = 'ssh_user = ""\nssh_port = 0\nkey_file = ""\nreached_at = ""\nclient_port = 0\n'
    path = tmp_path / "hosts.toml"
    path.write_text(HOST.format(0, 1) + nothing)
    (read,) = read_hosts(path)
    path.write_text(HOST.format(0, 1))
    assert [read] == read_hosts(path) and (read.ssh_port, read.key_file, read.client_ports) == (
        None,
        None,
        (),
    )
    path.write_text(HOST.format(0, 1) + "ssh_port = false\n")
    with pytest.raises(HostsFileError, match="ssh_port"):
        read_hosts(path)
    write_rules(host, f'client_port = 0\n{RULE}unit = ""\nrelation = ""\n')
    policy = read_policy(host)
    (rule,) = policy.host_rules.rules
    assert (rule.unit, rule.relation, policy.host_rules.client_port) == (None, None, None)
    said: Any = policy.to_json()
    (table,) = said["population"]
    assert (table["unit"], table["relation"], said["client_port"]) == ("", "", 0)
    write_rules(host, RULE)
    assert read_policy(host).to_json() == said


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "party": "1", "certificates": {}}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(CertificateError, match=r"is not a host's certificates: .*; ask its owner for"):
        set_up_with(tmp_path / "host", tmp_path / "other")
    forged = {"schema": 1, "party": -1, "certificates": {"mp-spdz": ""}}
    (tmp_path / "other").write_text(json.dumps(forged))
    with pytest.raises(HostUnfitError, match="what is no party"):
        set_up_with(tmp_path / "host", tmp_path / "other")


def test_a_host_names_options_of_its_coordinators_command(tmp_path: Path) -> None:
    """Its messages are made in a process of its own, which no command has told what it speaks to.

    Whoever calls functions gets keywords, and the next request is answered for who sends it.
    """
    host = make_hosts(tmp_path, clients=0)[0]
    no_keyword, no_flag = r"\b[a-z_]+=", r"--[a-z]|\./inv"
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"surface": "python"}, "correct population=, or", no_flag),
        ({"surface": "shell"}, "correct --population, or", no_keyword),
        ({}, "correct --population, or", no_keyword),
    ]
    with agents([host]) as [agent]:
        for surface, said, others in cases:
            with pytest.raises(Refused, match=said) as refusal:
                agent.ask("propose", asked=asked(population="loan"), **surface)
            assert not re.search(others, str(refusal.value))
