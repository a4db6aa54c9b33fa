"""The library by which MP-SPDZ's machines ask for certificates: built once, tried, else refused."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.engines.mpspdz import peer_certificates
from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from fairshares.harness.engines.mpspdz.peer_certificates import asking_library, let_in_by
from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.engines.parties.config import PartyConfig, VirtualMachine
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup
from fairshares.harness.engines.parties.working_directory import MET
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import CompileError, UnsupportedError
from fairshares.harness.party_reports import line_of_failure
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.protocols.spec import REPLICATED as REPLICATED_SHARES, SHARES
from tests.support.running import model_parameters, program_spec, until

ON_MACHINES = [model for model in MODELS.values() if model.virtual_machine]
REPLICATED = get_model("ps-rep-ring")


def machine_of(model: SecurityModel) -> tuple[Path, int, list[str]]:
    installation = find_installation()
    assert isinstance(installation, Installation)
    words = [*(("-N", "2") if model.parties == 2 else ()), *model.run_options]
    return installation.home / str(model.virtual_machine), model.parties, words


@pytest.fixture(autouse=True)
def _forget_installation() -> Iterator[None]:
    """What is found with another PATH is not for later tests."""
    find_installation()  # with this one
    yield
    find_installation.cache_clear()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "fairshares" / "links"


@pytest.mark.parametrize("model", model_parameters(models=ON_MACHINES))
def test_the_library_is_what_keeps_out_peers_without_a_certificate(
    model: SecurityModel, tmp_path: Path
) -> None:
    """The same machine, options and stand-ins, with and without it."""
    library = asking_library(*machine_of(model))
    let_in = {}
    for used in (library, None):
        for shown in (True, False):
            scratch = tmp_path / f"{used is None}-{shown}"
            scratch.mkdir()
            let_in[used is not None, shown] = let_in_by(scratch, *machine_of(model), used, shown=shown)
    assert let_in == {(True, True): True, (True, False): False, (False, True): True, (False, False): True}


@pytest.mark.mpspdz("ring")
def test_each_build_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr(peer_certificates, "_try", lambda *arguments: tried.append(arguments))
    _, parties, options = machine_of(get_model("ring"))
    copy = tmp_path / "machine.x"
    for change in (
        lambda: copy.write_text("one"),
        lambda: None,
        lambda: copy.write_text("two"),
        lambda: None,
    ):
        change()
        asking_library(copy, parties, options)
    assert len(tried) == 2
    (tmp_path / "libSPDZ.so").write_text("which the machine has its links by")
    asking_library(copy, parties, options)
    asking_library(copy, parties, options)
    assert len(tried) == 3
    asking_library(copy, parties, [*options, "-v"])
    assert len(tried) == 4


@pytest.mark.mpspdz("ring")
def test_a_machine_that_ends_at_once_refuses_nobody(tmp_path: Path, cache: Path) -> None:
    _, parties, options = machine_of(get_model("ring"))
    with pytest.raises(UnsupportedError, match="ended before any peer could show a certificate"):
        asking_library(Path("/bin/false"), parties, options)
    assert not list(cache.glob("*.tried"))


def no_compiler(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def no_headers(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (at / "cc").write_text("#!/bin/sh\nexit 1\n")
    (at / "cc").chmod(0o700)
    monkeypatch.setenv("PATH", str(at))


def cache_of_others(at: Path, _: pytest.MonkeyPatch) -> None:
    (at / "cache" / "fairshares").mkdir()
    (at / "cache" / "fairshares").chmod(0o777)


def library_of_others(at: Path, _: pytest.MonkeyPatch) -> None:
    (at / "cache" / "fairshares" / "links").mkdir(parents=True, mode=0o700)
    (at / "cache" / "fairshares" / "links").chmod(0o770)


def another_machine(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is no machine, or uses no library that is preloaded, as one that is linked statically."""
    monkeypatch.setattr(peer_certificates, "ENVIRONMENT", {"FAIRSHARES_MET": MET})


HINDERED: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], None], str]] = {
    "no compiler": (no_compiler, "install a C compiler and OpenSSL's headers"),
    "no headers": (no_headers, "install a C compiler and OpenSSL's headers"),
    "a cache of others": (cache_of_others, "so others could replace compiled programs"),
    "a library of others": (library_of_others, "so others could replace compiled programs"),
    "a static machine": (another_machine, "build MP-SPDZ from source, with OpenSSL linked dynamically"),
}


@pytest.mark.mpspdz("ps-rep-ring")
@pytest.mark.parametrize(("hinder", "said"), HINDERED.values(), ids=HINDERED)
def test_where_machines_cannot_ask_replicated_shares_are_refused(
    hinder: Callable[[Path, pytest.MonkeyPatch], None],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
) -> None:
    hinder(tmp_path, monkeypatch)
    (tmp_path / "nothing.mpc").write_text('print_ln("OUT nothing 0")\n')
    job = MadeUpJob(program_spec("nothing", "nothing"), tmp_path / "nothing.mpc", ())
    monkeypatch.setattr(MadeUpJob, "replicated", True)
    fault = engine_of(REPLICATED).fault_of_links(REPLICATED)
    assert fault is not None and said in fault and fault.count(". ") == 0
    by_shares = PI_RW.input_forms["split"].by(SHARES)
    assert engine_of(REPLICATED).supports(PI_RW, REPLICATED, by_shares.by(REPLICATED_SHARES)) == fault
    assert engine_of(REPLICATED).supports(PI_RW, REPLICATED, by_shares) is None
    with pytest.raises((CompileError, UnsupportedError), match=said):
        engine_of(REPLICATED).prepared(job, REPLICATED)
    assert not list(cache.glob("*.tried"))


@pytest.mark.mpspdz("ps-rep-ring")
def test_a_library_is_no_other_users_to_change(cache: Path) -> None:
    library = asking_library(*machine_of(REPLICATED))
    for path in (library, cache, cache.parent):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    cache.chmod(0o777)
    with pytest.raises(CompileError, match="Other users can write to"):
        asking_library(*machine_of(REPLICATED))


@pytest.mark.parametrize(("noted", "code"), [("12", 0), ("1122", 0), ("1", 18), ("", 18), ("123", 18)])
def test_a_party_that_met_others_than_its_peers_has_failed(noted: str, code: int, tmp_path: Path) -> None:
    """Whatever it revealed is signed by no host then."""
    made = {name: make_key(tmp_path, f"P{name}", f"P{name}") for name in "0123"}
    notes = "".join(f"{fingerprint(made[name].read_bytes())}\\n" for name in noted)
    config = PartyConfig(
        party=0,
        common_names=("P0", "P1", "P2"),
        engine=VirtualMachine(argv=("/bin/sh", "-c", f"printf '{notes}' > {MET}")),
    )
    party = LocalParty(PartySetup(config=config, notes_links=True), tmp_path / "party").start()
    try:
        assert party.certificate(600)
        party.go({int(name): made[name].read_text() for name in "12"})
        until(lambda: party.exit_code() is not None)
        assert party.exit_code() == code
        assert [line for line in party.state().lines if "accepted other certificates" in line] == (
            [
                line_of_failure(
                    "Its links accepted other certificates than those of the other parties of this run."
                )
            ]
            if code
            else []
        )
        assert party.met() == {
            int(name): fingerprint(made[name].read_bytes()) for name in "12" if name in noted
        }
    finally:
        party.kill()
        party.close()
