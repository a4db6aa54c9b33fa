"""Hosts that their owners set up, each on its own machine, by files that they exchange."""

import json
from pathlib import Path

import pytest

from harness.errors import CertificateError, HostUnfitError, PolicyError
from harness.hosts import keys
from harness.hosts.policy import DEFAULT, FILE
from harness.hosts.setup import exported, set_up_here
from harness.security_models import get_model
from tests.support.coordinators import RULE


def test_owners_set_up_each_their_own_host(tmp_path: Path) -> None:
    hosts = [tmp_path / str(i) for i in range(3)]
    for i, host in enumerate(hosts):
        set_up_here(host, i, renew=False, policy_text=None, others=[])
    files = [exported(host, i) for i, host in enumerate(hosts)]
    for i, host in enumerate(hosts):
        held = set_up_here(host, i, False, None, [path for path in files if path != files[i]])
        assert all(set(each) == {0, 1, 2} for each in held.values())
        for name in ("ring", "mpyc"):
            keys.RunKeys(host, get_model(name)).check(i)
        assert (host / FILE).read_text() == f"port = 12000\n{DEFAULT}"
        assert "PRIVATE" not in files[i].read_text()


def test_a_policy_stays_unless_another_is_given(tmp_path: Path) -> None:
    set_up_here(tmp_path / "host", 0, renew=False, policy_text=RULE, others=[])
    set_up_here(tmp_path / "host", 0, renew=True, policy_text=None, others=[])
    assert (tmp_path / "host" / FILE).read_text() == RULE
    with pytest.raises(PolicyError):
        set_up_here(tmp_path / "host", 0, renew=False, policy_text="x", others=[])
    assert (tmp_path / "host" / FILE).read_text() == RULE


def test_another_certificate_of_a_known_party_is_refused(tmp_path: Path) -> None:
    set_up_here(tmp_path / "mine", 0, renew=False, policy_text=None, others=[])
    for name in ("one", "two"):
        set_up_here(tmp_path / name, 1, renew=False, policy_text=None, others=[])
    set_up_here(tmp_path / "mine", 0, False, None, [exported(tmp_path / "one", 1)])
    with pytest.raises(CertificateError, match="Party 1 has another certificate now than this host holds"):
        set_up_here(tmp_path / "mine", 0, False, None, [exported(tmp_path / "two", 1)])


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "party": "1", "certificates": {}}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(CertificateError, match=r"is not a host's certificates: .*; ask its owner for"):
        set_up_here(tmp_path / "host", 0, False, None, [tmp_path / "other"])
    forged = {"schema": 1, "party": -1, "certificates": {"mp-spdz": ""}}
    (tmp_path / "other").write_text(json.dumps(forged))
    with pytest.raises(HostUnfitError, match="what is no party"):
        set_up_here(tmp_path / "host", 0, False, None, [tmp_path / "other"])
