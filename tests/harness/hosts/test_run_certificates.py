"""The owner's key signs, and a key of the run speaks TLS: who certifies which key, for which run alone."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.working_directory import CONFIG, DATA
from fairshares.harness.errors import CertificateError, HostUnfitError
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.messages import GetCertificate, RunTrial, Start
from fairshares.harness.hosts.party_run import Started
from fairshares.harness.hosts.signed_results import BenchmarkIntent, Intent, sign
from fairshares.harness.hosts.states import State
from fairshares.harness.hosts.trials import ReleaseTrial
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.system.files import PREFIX
from fairshares.harness.uploads.signatures import Signed, is_signed, kind_of
from fairshares.protocols.json_values import JsonObject
from tests.support.coordinators import (
    MODEL,
    RULE,
    Coordinator,
    Party,
    answered,
    asked,
    nonces_of,
    run_certificate,
    run_of,
    spent,
    stand_in,
    to_agree,
    to_go,
    to_prepare,
    write_rules,
)

TRIAL = ReleaseTrial(
    security=MODEL.name, asked=asked(population=None), federation=FederationSize(7, 23, 2, 2)
)
Changes = Callable[[Path], str]  # of a directory for keys: party 1's certificate in its statement


def owner(host: Path, party: int) -> Path:
    return host / "keys" / "embedded" / f"P{party}.pem"


def release(host: Path, stack: ExitStack) -> Work:
    """Return the work of party 0's host, ready to agree to a release; nothing runs."""
    work = Coordinator(host, stack).prepared(asked())
    return stood_in(work)


def benchmark(host: Path, stack: ExitStack) -> Work:
    """Return the work of party 0's host, ready to agree to a benchmark run; nothing runs."""
    write_rules(host, f"benchmark = true\n{RULE}")
    work = Coordinator(host, stack).work
    work.run_trial(RunTrial(party=0, trial=TRIAL))
    answered(work, to_prepare(0))
    return stood_in(work)


def stood_in(work: Work) -> Work:
    stand_in(work, Party())
    return work


def agreed(work: Work, hosts: list[Path]) -> dict[str, Signed]:
    """Have the host agree; return what all hosts sign of its run."""
    signed = {"0": answered(work, to_agree(nonces_of(work)))}
    for party in (1, 2):
        signed[str(party)] = said_by(work, hosts, party)
    return signed


def said_by(work: Work, hosts: list[Path], by: int, **changes: Any) -> Signed:
    """Return what another host's owner's key signs of the same run, or of something else."""
    said = replace(run_of(work).intent, **{"party": by, "run_certificate": run_certificate(by), **changes})
    return sign(said, owner(hosts[by], by))


KINDS = pytest.mark.parametrize("made", [release, benchmark])


def test_no_key_of_the_owner_is_in_reach_of_a_partys_directory(hosts: list[Path], stack: ExitStack) -> None:
    """Its process makes a key of its own; no file or link of the run leads to the owner's."""
    work = Coordinator(hosts[0], stack).prepared(asked())
    answered(work, Start())
    shown = answered(work, GetCertificate(seconds=600))
    (directory,) = hosts[0].glob(f"{PREFIX}*/party")
    owners = {path.read_bytes() for path in hosts[0].glob("keys/*/*.*") if path.is_file()}
    owners |= {path.read_bytes() for path in hosts[0].glob("keys/*/peers/*.pem")}
    own = directory / DATA / "P0.key"
    assert not own.is_symlink() and own.stat().st_mode & 0o077 == 0
    assert shown is not None and shown.encode() not in owners
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert own in files and not [path for path in files if path.read_bytes() in owners]
    keys = (hosts[0] / "keys").resolve()
    assert not [path for path in directory.rglob("*") if keys in path.resolve().parents]
    assert "keys" not in json.loads((directory / CONFIG).read_text())


@KINDS
def test_a_run_is_signed_once_its_party_has_a_key(
    made: Callable[..., Work], hosts: list[Path], stack: ExitStack
) -> None:
    work = made(hosts[0], stack)
    ready = run_of(work)
    work.state = Started(ready.place, ready.planned, ready.prepared, ready.process)
    for message in (to_agree(nonces_of(work)), to_go({})):
        with pytest.raises(HostUnfitError, match=f"as {State.STARTED}"):
            answered(work, message)


@KINDS
def test_no_certificate_comes_from_a_coordinator(
    made: Callable[..., Work], hosts: list[Path], stack: ExitStack
) -> None:
    work = made(hosts[0], stack)
    signed = agreed(work, hosts)
    told: JsonObject = {
        "agreed": {party: asdict(one) for party, one in signed.items()},
        "certificates": {},
    }
    with pytest.raises(HostUnfitError, match="unknown key 'certificates'"):
        work.handlers["go"].answer(told)
    answered(work, to_go(signed))
    assert run_of(work).process.gone


def of_another_party(place: Path) -> str:
    return make_key(place, "other", "MPyC party 2").read_text()


def of_the_owner(place: Path) -> str:
    return make_key(place, "year", "MPyC party 1", timedelta(days=365)).read_text()


def of_an_earlier_run(place: Path) -> str:
    return make_key(place, "late", "MPyC party 1", timedelta(minutes=-1)).read_text()


def of_several(place: Path) -> str:
    return run_certificate(1) + of_another_party(place)


def of_nobody(_place: Path) -> str:
    return ""


@KINDS
@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (of_another_party, "for this run was made for another party than MPyC party 1"),
        (of_the_owner, "is valid for longer than a run, so its key is not for this run alone"),
        (of_an_earlier_run, "The certificate of party 1 for this run expired"),
        (of_several, "is not one certificate alone"),
        (of_nobody, "is not a certificate"),
    ],
)
def test_an_owner_certifies_a_key_of_its_party_for_a_run(
    *,
    made: Callable[..., Work],
    certificate: Changes,
    said: str,
    hosts: list[Path],
    stack: ExitStack,
    tmp_path: Path,
) -> None:
    """Whatever a hostile owner signs, this host's links accept no other party in its place, nor for long."""
    work = made(hosts[0], stack)
    signed = agreed(work, hosts)
    signed["1"] = said_by(work, hosts, 1, run_certificate=certificate(tmp_path))
    with pytest.raises(CertificateError, match=said):
        answered(work, to_go(signed))
    assert spent(hosts[0]) == [] and not work.is_running


@KINDS
def test_a_certificate_is_for_one_run_one_party_and_one_owner(
    made: Callable[..., Work], hosts: list[Path], stack: ExitStack, tmp_path: Path
) -> None:
    """Replays of an earlier run, of another party's statement, and of a stranger's are refused."""
    work = made(hosts[0], stack)
    signed = agreed(work, hosts)
    stranger = make_key(tmp_path, "P1", "MPyC party 1")
    intent = replace(run_of(work).intent, party=1, run_certificate=run_certificate(1))
    for replayed, error, said in (
        (said_by(work, hosts, 1, nonces=["0", "1", "2"]), HostUnfitError, "about to run something else"),
        (said_by(work, hosts, 1, party=2), HostUnfitError, "about to run something else"),
        (signed["2"], CertificateError, "Party 1 has another certificate than this host holds"),
        (sign(intent, stranger), CertificateError, "Party 1 has another certificate"),
        (
            replace(signed["1"], said=said_by(work, hosts, 1, run="1" * 32).said),
            HostUnfitError,
            "not its certificate's",
        ),
    ):
        with pytest.raises(error, match=said):
            answered(work, to_go(signed | {"1": replayed}))
    assert spent(hosts[0]) == [] and not work.is_running
    answered(work, to_go(signed))


def test_a_benchmark_stands_for_no_release_and_no_release_for_it(
    hosts: list[Path], stack: ExitStack, tmp_path: Path
) -> None:
    """Their signatures are of different kinds, even if they said the same."""
    work = release(hosts[0], stack)
    signed = agreed(work, hosts)
    intent = run_of(work).intent
    said = BenchmarkIntent(
        intent.nonces, 1, intent.run, intent.started, "", intent.program_hash, "MPyC", run_certificate(1)
    )
    of_benchmark = sign(said, owner(hosts[1], 1))
    same_text = replace(of_benchmark, said=signed["1"].said)
    for wrong in (of_benchmark, same_text):
        with pytest.raises(HostUnfitError, match=r"What party 1 signed is not this run: a signature is not"):
            answered(work, to_go(signed | {"1": wrong}))
    assert is_signed(signed["1"], kind_of(Intent)) and not is_signed(signed["1"], kind_of(BenchmarkIntent))
    stack.close()
    with ExitStack() as another:
        trial = benchmark(hosts[0], another)
        of_trial = agreed(trial, hosts)
        with pytest.raises(HostUnfitError, match=r"What party 1 signed is not this run: a signature is not"):
            answered(trial, to_go(of_trial | {"1": signed["1"]}))
    assert spent(hosts[0]) == []


def test_hosts_begin_no_different_benchmark_runs(hosts: list[Path], stack: ExitStack) -> None:
    work = benchmark(hosts[0], stack)
    signed = agreed(work, hosts)
    for changes in ({"trial": "other"}, {"program_hash": "other"}, {"run": "1" * 32}, {"started": "2027"}):
        with pytest.raises(HostUnfitError, match="about to run something else"):
            answered(work, to_go(signed | {"2": said_by(work, hosts, 2, **changes)}))
    answered(work, to_go(signed))
