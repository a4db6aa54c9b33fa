"""A host's policy: what it may say, and what is said of one that makes no sense."""

import os
from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import PolicyError
from harness.hosts.policy import DEFAULT, FILE, checked_policy, read_policy, write_policy
from harness.pipeline.sources import request_of_run
from harness.releases.registry import STATISTICS
from harness.security_models import MODELS
from tests.support.coordinators import RULE, asked


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir(mode=0o700)
    return tmp_path / "host"


def test_the_default_covers_every_population_within_limits(host: Path) -> None:
    write_policy(host, DEFAULT)
    assert (host / FILE).stat().st_mode & 0o777 == 0o600
    rule = read_policy(host).rule_for(request_of_run(asked(population="whoever")))
    assert (rule.budget.epsilon, rule.budget.delta) == (Fraction(10), Fraction(1, 2**30))
    assert (rule.per_run.epsilon, rule.per_run.delta) == (Fraction(4), Fraction(1, 2**36))
    assert (rule.table["tasks"], rule.table["security"]) == (list(STATISTICS), list(MODELS))


def test_every_commented_line_of_the_default_is_one_that_may_be_used(host: Path) -> None:
    lines = [line.removeprefix("# ") if " = " in line else line for line in DEFAULT.splitlines()]
    write_policy(host, "\n".join(lines))
    with pytest.raises(PolicyError, match="lets 'bob' start nothing"):
        read_policy(host).check_coordinator("bob")


def test_limits_are_exact_however_they_are_written(host: Path) -> None:
    for text in ("0.1", '"0.1"', '"1/10"', "1e-1"):
        write_policy(host, RULE.replace("epsilon = 4", f"epsilon = {text}"))
        assert read_policy(host).rules[0].budget.epsilon == Fraction(1, 10)


def test_a_population_is_the_same_in_any_spelling(host: Path) -> None:
    write_policy(host, RULE)
    assert read_policy(host).rule_for(request_of_run(asked(population="LOANS"))).name == "loans"


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
    assert "\n" not in str(raised.value) and str(raised.value).startswith(FILE)
    assert (host / FILE).read_text() == DEFAULT
    (host / "mine").write_text(text)
    with pytest.raises(PolicyError, match="mine"):
        checked_policy(host / "mine", str(host / "mine"))


def test_a_policy_is_its_owners_alone(host: Path) -> None:
    write_policy(host, DEFAULT)
    (host / FILE).chmod(0o660)
    with pytest.raises(PolicyError, match=r"Others can change .*policy\.toml; .* chmod go-w"):
        read_policy(host)
    (host / FILE).chmod(0o600)
    host.chmod(0o777)
    with pytest.raises(PolicyError, match="Others can change"):
        read_policy(host)
    host.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(host / FILE, 1, 1)
        with pytest.raises(PolicyError, match="Others can change"):
            read_policy(host)
