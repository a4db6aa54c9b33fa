"""Renewed, lost and stolen keys: a history belongs to a chain of keys, and no renewal makes a host forget."""

import json
import shutil
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.engines.registry import engines
from fairshares.harness.errors import CertificateError, HostUnfitError, OptionError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.key_histories import (
    History,
    Successor,
    first_history,
    history_file,
    read_history,
)
from fairshares.harness.hosts.policy import LEDGER, STOCK
from fairshares.harness.hosts.setup import exported, set_up_here
from fairshares.harness.hosts.signed_results import sign
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.stock import PieceRecord, Stock
from fairshares.harness.system.files import write_whole
from fairshares.harness.uploads.signatures import Signed, kind_of, signature_of
from tests.harness.hosts.test_preparation import HEAD, begun, preparing
from tests.harness.hosts.test_restored_hosts import Chain, refusal
from tests.support.command import refused, succeed
from tests.support.coordinators import (
    MODEL,
    Coordinator,
    answered,
    asked,
    nonces_of,
    run_certificate,
    run_of,
    stand_in,
    to_agree,
    to_go,
)
from tests.support.hostile import check_refuses, spoilt


def renew(hosts: list[Path], party: int) -> Path:
    """Have an owner renew its host's keys; return the file for the other owners."""
    set_up_here(hosts[party], party, renew=True, policy_text=None, others=[], models=["mpyc"])
    return exported(hosts[party], party)


def accept(hosts: list[Path], file: Path, of: int, lost: tuple[int, ...] = ()) -> None:
    """Have all other owners accept an owner's certificates."""
    for i, host in enumerate(hosts):
        if i != of:
            set_up_here(host, i, renew=False, policy_text=None, others=[file], models=["mpyc"], lost=lost)


def place(host: Path, of: int | None = None, engine: str = "embedded") -> Path:
    """Return a certificate: a host's own of party 0, or the one that it holds of another party."""
    own = host / "keys" / engine
    return own / "P0.pem" if of is None else own / "peers" / f"P{of}.pem"


def test_a_restored_ledger_is_refused_after_a_renewal(tmp_path: Path) -> None:
    """All hosts renew, twice, as each year: what they have seen of each other stays."""
    chain = Chain(tmp_path)
    chain.run()
    shutil.copy(chain.hosts[0] / LEDGER, tmp_path / "backup")
    chain.run()
    last = Ledger(chain.hosts[0] / LEDGER).head()
    for _ in range(2):
        for party in range(3):
            accept(chain.hosts, renew(chain.hosts, party), party)
    shutil.copy(tmp_path / "backup", chain.hosts[0] / LEDGER)
    assert refusal(chain) == last


def test_a_host_without_its_ledger_and_keys_begins_after_its_owner_says_what_was_lost(tmp_path: Path) -> None:
    """The new key has no history of its own; the others keep what they have seen of the lost one."""
    chain = Chain(tmp_path)
    chain.run()
    last = Ledger(chain.hosts[0] / LEDGER).head()
    shutil.rmtree(chain.hosts[0] / "keys")
    (chain.hosts[0] / LEDGER).unlink()
    others = [exported(chain.hosts[party], party) for party in (1, 2)]
    for party in (1, 2):
        set_up_here(chain.hosts[party], party, renew=False, policy_text=None, others=[], models=["mpyc"])
    set_up_here(chain.hosts[0], 0, renew=False, policy_text=None, others=others, models=["mpyc"])
    new = exported(chain.hosts[0], 0)
    with pytest.raises(CertificateError, match=r"the held key .* did not sign it.*--lost 0"):
        accept(chain.hosts, new, 0)
    accept(chain.hosts, new, 0, lost=(0,))
    assert refusal(chain) == last
    lost_runs = (
        "--directory",
        str(chain.hosts[0]),
        "--population",
        "loans",
        "--epsilon",
        "1",
        "--seen",
        last,
    )
    succeed("hosts.restored", *lost_runs, cwd=tmp_path)
    chain.run()


def test_a_second_successor_is_refused(hosts: list[Path], tmp_path: Path) -> None:
    """Somebody has a copy of the old key, and makes another new one by it."""
    shutil.copytree(hosts[0], tmp_path / "thief")
    right = renew(hosts, 0)
    accept(hosts, right, 0)
    held = [path.read_bytes() for path in sorted(hosts[1].glob("keys/*/peers/*"))]
    thief = [tmp_path / "thief", hosts[1], hosts[2]]
    with pytest.raises(CertificateError, match=r"new key of party 0 .* would be a second successor"):
        accept(thief, renew(thief, 0), 0)
    with pytest.raises(CertificateError, match=r"would be a second successor"):  # and one more by that
        accept(thief, renew(thief, 0), 0)
    assert [path.read_bytes() for path in sorted(hosts[1].glob("keys/*/peers/*"))] == held
    accept(hosts, renew(hosts, 0), 0)  # the owner renews on


def test_the_owner_is_told_where_a_thief_came_first(hosts: list[Path], tmp_path: Path) -> None:
    """And goes on by the other owners' word; the history is that of the first key all the time."""
    first = fingerprint(place(hosts[0]).read_bytes())
    shutil.copytree(hosts[0], tmp_path / "thief")
    thief = [tmp_path / "thief", hosts[1], hosts[2]]
    accept(thief, renew(thief, 0), 0)
    with pytest.raises(CertificateError, match="would be a second successor of a key"):
        accept(hosts, renew(hosts, 0), 0)
    accept(hosts, exported(hosts[0], 0), 0, lost=(0,))
    history = read_history(place(hosts[1], of=0))
    assert history.keys[0] == first and len(history.keys) == 3
    assert history.keys[-1] == fingerprint(place(hosts[0]).read_bytes())


def test_a_replaced_key_stays_replaced(hosts: list[Path], stack: ExitStack, tmp_path: Path) -> None:
    """Neither is it held again, nor does a run begin by what it signs, whoever says that a key was lost."""
    shutil.copytree(hosts[0], tmp_path / "thief")
    set_up_here(tmp_path / "thief", 0, renew=False, policy_text=None, others=[], models=["mpyc"])
    accept(hosts, renew(hosts, 0), 0)
    old = exported(tmp_path / "thief", 0)
    for lost in ((), (0,)):
        with pytest.raises(CertificateError, match="Party 0 shows a key that another one has replaced"):
            accept(hosts, old, 0, lost)
    coordinator = Coordinator(hosts[1], stack)
    work = coordinator.prepared(asked(), 1)
    stand_in(work)
    signed = {"1": answered(work, to_agree(nonces_of(work)))}
    intent = run_of(work).intent
    for party, key in ((0, place(tmp_path / "thief")), (2, hosts[2] / "keys" / "embedded" / "P2.pem")):
        said = replace(intent, party=party, run_certificate=run_certificate(party))
        signed[str(party)] = sign(said, key)
    with pytest.raises(CertificateError, match="Party 0 has another certificate than this host holds of it"):
        answered(work, to_go(signed))


def test_a_host_that_missed_a_renewal_follows_the_chain(hosts: list[Path]) -> None:
    """And one that is new learns with whose history the key came."""
    first = fingerprint(place(hosts[0]).read_bytes())
    for _ in range(3):
        file = renew(hosts, 0)
    accept(hosts, file, 0)
    assert read_history(place(hosts[1], of=0)).keys[0] == first
    assert len(read_history(place(hosts[1], of=0)).keys) == 4
    new = hosts[0].parent / "new"
    set_up_here(new, 1, renew=False, policy_text=None, others=[file], models=["mpyc"])
    assert read_history(place(new, of=0)).keys[0] == first


def test_keys_of_1_0_have_no_histories(hosts: list[Path]) -> None:
    """Each is its own first key, by which that version kept what it had seen; renewal carries it on."""
    assert not list(hosts[1].glob("keys/*/*.history"))
    for path in hosts[1].glob("keys/*/peers/*.history"):
        path.unlink()
    old = fingerprint(place(hosts[1], of=0).read_bytes())
    Ledger(hosts[1] / LEDGER).remember({old: HEAD})
    accept(hosts, renew(hosts, 0), 0)
    run_keys = host_keys.RunKeys(hosts[1], MODEL)
    assert run_keys.histories(1)[0] == old and fingerprint(place(hosts[1], of=0).read_bytes()) != old
    assert Ledger(hosts[1] / LEDGER).seen()[run_keys.histories(1)[0]] == HEAD


def test_attempts_to_make_noise_are_counted_on_after_a_renewal(hosts: list[Path], stack: ExitStack) -> None:
    """Each may have fooled a check: no renewal hides how many there were."""
    with ExitStack() as connection:
        begun(preparing(hosts[0], connection), hosts, attempts=1)
    accept(hosts, renew(hosts, 0), 0)
    accept([hosts[0]], renew(hosts, 1), 1)
    work = preparing(hosts[0], stack)
    planned = run_of(work).planned
    assert planned.attempts() == 2
    with pytest.raises(HostUnfitError, match="fewer attempts"):
        begun(work, hosts, attempts=1)
    stock = Stock(hosts[0] / STOCK)
    made = hosts[0] / "made"
    made.mkdir()
    stock.keep(planned.terms, "piece", made, PieceRecord(attempts=1), counted=planned.counted)
    assert stock.pieces(planned.terms) == ["piece"] and planned.attempts() == 1


def test_a_renewal_that_is_killed_loses_no_key(hosts: list[Path]) -> None:
    """Between its two last steps the old keys wait aside."""
    before = host_keys.own_certificates(hosts[0], 0)
    (hosts[0] / "keys").rename(hosts[0] / "keys.old")
    assert host_keys.make_keys(hosts[0], 0, renew=False) == before
    held = place(hosts[1], of=0)
    file = renew(hosts, 0)
    longer = History([fingerprint(held.read_bytes()), fingerprint(place(hosts[0]).read_bytes())], [])
    fields = {"schema": 1, **asdict(longer)}  # the history is written first, then the host dies
    write_whole(history_file(held), json.dumps(fields).encode())
    assert read_history(held).keys == longer.keys[:1]
    accept(hosts, file, 0)
    assert read_history(held).keys == longer.keys


def successor(old: Path, new: str, of: str = "") -> Signed:
    """Return what an old key signs. Args: of: another key than itself, whose successor it names."""
    said = json.dumps({"old": of or fingerprint(old.read_bytes()), "new": new}, sort_keys=True)
    key: Any = serialization.load_pem_private_key(old.with_suffix(".key").read_bytes(), None)
    return Signed(said, signature_of(key, kind_of(Successor), said), old.read_text())


def test_a_chain_is_one_only_if_each_key_signed_the_next(hosts: list[Path]) -> None:
    a, b, c = (host / "keys" / "embedded" / f"P{i}.pem" for i, host in enumerate(hosts))
    to = [fingerprint(path.read_bytes()) for path in (a, b, c)]
    assert first_history(to[2], [successor(a, to[1]), successor(b, to[2])], "It").keys == to
    for wrong, said in (
        ([successor(a, to[1])], "the old keys signed another one"),
        ([successor(a, to[1]), successor(a, to[2])], "did not follow each other"),
        ([successor(b, to[2]), successor(a, to[1])], "did not follow each other"),
        ([successor(a, to[2], of=to[1])], "did not follow each other"),
        ([replace(successor(a, to[2]), certificate=b.read_text())], "not of the old key that it names"),
        ([replace(successor(a, to[2]), said=successor(a, to[1]).said)], "not of the old key that it names"),
        ([successor(a, to[1]), successor(b, to[0]), successor(a, to[2])], "is said to follow itself"),
        ([successor(a, to[1])] * 101, "more than 100 keys"),
    ):
        with pytest.raises(CertificateError, match=said):
            first_history(to[2], wrong, "It")


def test_a_file_with_any_successors_is_refused_in_one_sentence(hosts: list[Path]) -> None:
    good = json.loads(renew(hosts, 0).read_text())
    file = hosts[0] / "changed"

    def take(fields: Any) -> None:
        file.write_text(json.dumps(fields))
        accept(hosts[:2], file, 0)

    before = [path.read_bytes() for path in sorted(hosts[1].glob("keys/*/peers/*"))]
    check_refuses(
        take, (CertificateError, HostUnfitError), spoilt(good, optional=("successors", "embedded", "mp-spdz"))
    )
    assert [path.read_bytes() for path in sorted(hosts[1].glob("keys/*/peers/*"))] == before
    take(good)


def test_a_lost_key_needs_a_new_one(hosts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="party 2 lost its key; name the file"):
        set_up_here(hosts[0], 0, renew=False, policy_text=None, others=[], models=["mpyc"], lost=[2])
    own = ("--directory", str(hosts[0]), "--party", "0")
    assert "--lost must be numbers of parties" in refused("hosts.setup", *own, "--lost", "x", cwd=tmp_path)
    assert "--lost are for one host" in refused("hosts.setup", "--lost", "1", cwd=tmp_path)


def test_both_engines_keys_have_one_history(hosts: list[Path]) -> None:
    """A ledger is one, whichever engine's key its host has signed by."""
    firsts = host_keys.RunKeys(hosts[0], MODEL).all_histories(0)
    assert [len(of_party) for of_party in firsts.values()] == [len(engines())] * 2
