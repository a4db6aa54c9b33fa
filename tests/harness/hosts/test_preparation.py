"""Noise made ahead on hosts: all keep a piece or none does, each is used once, and none after a backup."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HostUnfitError, PolicyError
from harness.hosts.policy import STOCK
from harness.hosts.signed_results import Intent, Signed, Statement, sign
from harness.hosts.work import Work
from harness.privacy.stock import Stock
from harness.request.releases import WeightsRequest
from harness.security_models import get_model
from tests.support.command import refused, succeed
from tests.support.coordinators import DOMAIN, MODEL, RULE, Coordinator, Party, asked, now, write_rules
from tests.support.running import QUICKEST
from tests.support.ssh import Site, set_up, site

ASKED = WeightsRequest(epsilon=1, security=MODEL, population="loans", offline=True).to_json()


def preparing(host: Path, stack: ExitStack) -> Work:
    """Return the work of party 0's host, with a party that is ready to make noise."""
    work = Coordinator(host, stack).work
    work.preprocess(ASKED, DOMAIN.to_json())
    work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
    return work


def signed_by_all(said: Any, hosts: list[Path], **others: Any) -> dict[str, Signed]:
    """Return what all hosts sign of an intent or a statement. Args: others: fields that are another's own."""
    signed = {}
    for i, host in enumerate(hosts):
        intent = said if isinstance(said, Intent) else said.ran
        intent = replace(intent, party=i, **(others if i else {}))
        own = intent if isinstance(said, Intent) else replace(said, ran=intent)
        signed[str(i)] = Signed(**sign(own, host / "keys" / "embedded" / f"P{i}.pem"))
    return signed


def agreed(work: Work, hosts: list[Path], attempts: int = 1, **others: Any) -> dict[str, Signed]:
    """Have a host agree to its run; return what all hosts sign of that."""
    work.run.agree([work.run.nonce, "1", "2"], now(), attempts)  # type: ignore[attr-defined]
    return signed_by_all(work.run.intent, hosts, **others)  # type: ignore[attr-defined]


def begun(work: Work, hosts: list[Path], **others: Any) -> None:
    """Let a party of which nothing runs begin."""
    signed = agreed(work, hosts, **others)
    work.run._party, work.run._is_ready = Party(), True  # type: ignore[assignment]
    work.run.go(signed)


def test_attempts_are_counted_before_a_party_begins_and_limited(hosts: list[Path], stack: ExitStack) -> None:
    """A cheater may fool a check in each; no coordinator hides how many there were."""
    write_rules(hosts[0], f"attempts = 2\n{RULE}")
    for number in (1, 2):
        with ExitStack() as connection:
            begun(preparing(hosts[0], connection), hosts, attempts=number)
    with pytest.raises(HostUnfitError, match="fewer attempts"):
        agreed(preparing(hosts[0], stack), hosts, attempts=2)
    stack.close()
    with pytest.raises(PolicyError, match="attempts = 2, and this would be attempt 3"):
        agreed(preparing(hosts[0], stack), hosts, attempts=3)
    (terms,) = (hosts[0] / STOCK).iterdir()
    assert Stock(hosts[0] / STOCK).pieces(terms.name) == []


def test_a_policy_that_forbids_the_release_forbids_its_noise(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[0], stack).work
    with pytest.raises(PolicyError, match="names no population 'others'"):
        work.preprocess({**ASKED, "population": "others"}, DOMAIN.to_json())


@pytest.mark.parametrize("missing", ["signature", "end"])
def test_no_piece_is_kept_unless_all_parties_ended_well(
    missing: str, hosts: list[Path], stack: ExitStack
) -> None:
    """A check can fail at one party alone."""
    work = preparing(hosts[0], stack)
    begun(work, hosts)
    intent = work.run.intent  # type: ignore[attr-defined]
    made = signed_by_all(Statement(intent, {}, ("0", "0"), {}, {}, ""), hosts)
    if missing == "signature":
        work.run._ended_well = True  # type: ignore[attr-defined]
        made["2"] = signed_by_all(Statement(intent, {}, ("0", "0"), {}, {}, ""), hosts, piece="another")["2"]
    with pytest.raises(HostUnfitError, match=r"ended something else|its party did not make"):
        work.run.keep(made)  # type: ignore[attr-defined]
    (terms,) = (hosts[0] / STOCK).iterdir()
    assert Stock(hosts[0] / STOCK).pieces(terms.name) == []


@pytest.mark.parametrize("offline", [True, False])
def test_a_ledger_that_went_back_in_time_is_found_out(
    offline: bool, hosts: list[Path], stack: ExitStack
) -> None:
    """By a peer that remembers what the host charged; no noise of that host is used any more."""
    (hosts[0] / STOCK / "terms").mkdir(parents=True)
    work = preparing(hosts[0], stack) if offline else Coordinator(hosts[0], stack).prepared(asked())
    with pytest.raises(HostUnfitError, match="ends with charge 0, and party 1 has seen charge 3"):
        begun(work, hosts, seen={"0": 3})
    assert not (hosts[0] / STOCK).exists()


def test_a_peer_that_went_back_in_time_is_refused(hosts: list[Path], stack: ExitStack) -> None:
    work = preparing(hosts[0], stack)
    held = work.run._keys.others(0)
    work.run.guard.remember({1: 5}, held)  # type: ignore[attr-defined]
    with pytest.raises(HostUnfitError, match="party 1 ends with charge 4, and this host has seen charge 5"):
        begun(work, hosts, charges=4)


MODEL_OF_HOSTS = get_model(QUICKEST)
REQUEST = ("weights", "--hosts", "hosts.toml", "--epsilon", "1", "--security", QUICKEST)
DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "5")
RUN = (*REQUEST, "--offline", "--population", "people")


@pytest.fixture
def at_hosts(tmp_path: Path) -> Iterator[Site]:
    """Yield hosts that are set up, each with its shares of the same records."""
    with site(tmp_path, MODEL_OF_HOSTS.parties) as made:
        set_up(made, MODEL_OF_HOSTS)
        yield made


def pieces(made: Site, party: int) -> set[str]:
    stock = Stock(made.directory(party) / STOCK)
    return {name for terms in stock.directory.iterdir() for name in stock.pieces(terms.name)}


def test_noise_is_made_kept_and_used_once_over_hosts(at_hosts: Site) -> None:
    """From making it to a verified release; then with a lost piece, and with a host from a backup."""
    home, last = at_hosts.home, MODEL_OF_HOSTS.parties - 1
    told = json.loads(succeed(*REQUEST, *DECLARED, "--preprocess", "4", "--json", cwd=home))
    assert [piece["attempts"] for piece in told["pieces"]] == [1, 1, 1, 1]
    assert {frozenset(pieces(at_hosts, i)) for i in range(last + 1)} == {
        frozenset(piece["piece"] for piece in told["pieces"])
    }
    backup = at_hosts.directory(0).with_name("backup")
    shutil.copytree(at_hosts.directory(0), backup)

    succeed(*RUN, "--out", "first", cwd=home)
    manifest = json.loads((home / "first" / "manifest.json").read_text())
    used = manifest["preprocessing"]["piece"]
    assert manifest["privacy"]["made_ahead"] and used not in pieces(at_hosts, 0) | pieces(at_hosts, last)
    assert "signed" in succeed("verify", "first", cwd=home)

    (lost,) = (at_hosts.directory(last) / STOCK).rglob(min(pieces(at_hosts, last)))
    shutil.rmtree(lost)
    succeed(*RUN, "--out", "second", cwd=home)
    second = json.loads((home / "second" / "manifest.json").read_text())["preprocessing"]["piece"]
    assert second not in (used, lost.name)

    shutil.rmtree(at_hosts.directory(0))
    backup.rename(at_hosts.directory(0))
    for online in (RUN, tuple(option for option in RUN if option != "--offline")):
        assert "restored from a backup" in refused(*online, "--out", "third", cwd=home)
        assert not (at_hosts.directory(0) / STOCK).exists() and not (home / "third").exists()
    assert "no piece of noise is at all hosts" in refused(*RUN, "--out", "third", cwd=home)
