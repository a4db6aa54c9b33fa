"""A host's keys: made once, readable by their owner alone; how owners set hosts up; others' certificates."""

import json
import shutil
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from harness.engines.parties.certificates import make_key
from harness.engines.registry import engines
from harness.errors import CertificateError, HostUnfitError, PolicyError
from harness.hosts import keys
from harness.hosts.policy import DEFAULT, FILE
from harness.hosts.setup import exported, set_up_here
from harness.security_models import get_model
from tests.support.coordinators import RULE


def certificates(*made: dict[str, str]) -> dict[str, dict[int, str]]:
    return {name: {i: texts[name] for i, texts in enumerate(made)} for name in engines()}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, dict[str, dict[int, str]]]:
    """Return the directories of two hosts that know each other, and their certificates."""
    one, other = tmp_path / "one", tmp_path / "other"
    found = certificates(keys.make_keys(one, 0, renew=False), keys.make_keys(other, 1, renew=False))
    keys.pin(one, 0, found)
    keys.pin(other, 1, found)
    return one, other, found


def test_keys_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    first = keys.make_keys(tmp_path / "host", 1, renew=False)
    assert keys.make_keys(tmp_path / "host", 1, renew=False) == first
    assert keys.own_certificates(tmp_path / "host", 1) == first
    made = list((tmp_path / "host").rglob("*.key"))
    assert len(made) == 2 and {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "host").stat().st_mode) == 0o700
    assert all("PRIVATE" not in text for text in first.values())


def test_new_keys_forget_the_others_certificates(pair: tuple[Path, Path, dict[str, dict[int, str]]]) -> None:
    one, _, found = pair
    renewed = keys.make_keys(one, 0, renew=True)
    assert all(renewed[name] != found[name][0] for name in renewed)
    assert not any(keys.pinned(one).values())
    assert [path.name for path in one.iterdir()] == ["keys"]


def test_another_partys_directory_is_refused(tmp_path: Path) -> None:
    keys.make_keys(tmp_path, 1, renew=False)
    with pytest.raises(HostUnfitError, match="was set up for party 1, not 0"):
        keys.make_keys(tmp_path, 0, renew=False)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    keys.make_keys(tmp_path, 0, renew=False)
    (tmp_path / "keys" / "mp-spdz" / "P0.key").chmod(0o640)
    with pytest.raises(HostUnfitError, match=r"P0\.key can be read by others"):
        keys.own_certificates(tmp_path, 0)


def test_a_held_certificate_gives_way_to_no_other(
    pair: tuple[Path, Path, dict[str, dict[int, str]]], tmp_path: Path
) -> None:
    """OpenSSL trusts all that a file holds, and people compare the fingerprint of the first."""
    one, other, found = pair
    renewed = certificates({name: found[name][0] for name in found}, keys.make_keys(other, 1, renew=True))
    with pytest.raises(CertificateError, match="Party 1 has another certificate now than this host holds"):
        keys.pin(one, 0, renewed)
    assert keys.pinned(one)["mp-spdz"] == {1: found["mp-spdz"][1]}
    one_more = make_key(tmp_path, "more", "P1").read_text()
    keys.make_keys(tmp_path / "third", 0, renew=False)
    with pytest.raises(CertificateError):
        keys.pin(tmp_path / "third", 0, {name: {1: held[1] + one_more} for name, held in found.items()})


def test_what_a_run_needs_is_there_and_valid(
    pair: tuple[Path, Path, dict[str, dict[int, str]]], tmp_path: Path
) -> None:
    one, _, _ = pair
    keys.RunKeys(one, get_model("semi2k")).check(0)
    with pytest.raises(HostUnfitError, match="No certificate of party 2"):
        keys.RunKeys(one, get_model("ring")).check(0)
    place = one / "keys" / "mp-spdz" / "peers" / "P1.pem"
    shutil.copyfile(make_key(tmp_path, "late", "P1", timedelta(minutes=-5)), place)
    with pytest.raises(CertificateError, match=r"The certificate of party 1 .* expired on .* --renew"):
        keys.RunKeys(one, get_model("semi2k")).check(0)
    shutil.copyfile(make_key(tmp_path, "other", "P0"), place)
    with pytest.raises(CertificateError, match="was made for another party than P1"):
        keys.RunKeys(one, get_model("semi2k")).check(0)
    place.write_text("none")
    with pytest.raises(CertificateError, match="is not a certificate"):
        keys.RunKeys(one, get_model("semi2k")).check(0)


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


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "party": "1", "certificates": {}}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(CertificateError, match=r"is not a host's certificates: .*; ask its owner for"):
        set_up_here(tmp_path / "host", 0, False, None, [tmp_path / "other"])
    forged = {"schema": 1, "party": -1, "certificates": {"mp-spdz": ""}}
    (tmp_path / "other").write_text(json.dumps(forged))
    with pytest.raises(HostUnfitError, match="what is no party"):
        set_up_here(tmp_path / "host", 0, False, None, [tmp_path / "other"])
