"""The links of MP-SPDZ's virtual machines, started as for a run: whom they let in, by which certificate."""

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from msgspec import structs

from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.engines.parties.certificates import make_key, trust
from fairshares.harness.engines.parties.config import VirtualMachine
from fairshares.harness.engines.parties.handle import LocalParty, LocalProcess
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from tests.support.running import model_parameters, program_spec, until
from tests.support.ssh import answers
from tests.support.stand_in import context, greet, hello, joined, names, shake_hands

ON_MACHINES = [model for model in MODELS.values() if model.virtual_machine]
each_model = pytest.mark.parametrize("model", model_parameters(models=ON_MACHINES))
RING = get_model("ring")
in_ring = pytest.mark.mpspdz(RING.name)
LOOPBACK = "127.0.0.1"
NOTHING = 'print_ln("OUT nothing 0")\n'
OF_CLIENTS = (
    "from fairshares.protocols.circuits.clients import front\n"
    f"front(listen_for_clients, accept_client_connection, get_cmdline_arg)\n{NOTHING}"
)
NUMBER = 7  # by which a gateway greets its machine


@contextmanager
def machines(
    model: SecurityModel, at: Path, held: Mapping[int, Path], text: str = NOTHING, words: Sequence[str] = ()
) -> Iterator[tuple[int, LocalProcess]]:
    """Yield the port of party 0's machine, and its process, once it waits for its peers.

    Args: held: certificates of parties that others stand in for; text: of the program; words: it is given.
    """
    source = at / "nothing.mpc"
    source.write_text(text)
    job = MadeUpJob(program_spec("nothing", "nothing"), source, ())
    engine = engine_of(model)
    prepared = engine.prepared(job, model)
    with free_ports(model.parties) as ports:
        laid_out: dict[int, LocalParty] = {}
        parties: dict[int, LocalProcess] = {}
        for i in sorted({*range(model.parties)} - held.keys()):
            setup = engine.setup(prepared, i, [(LOOPBACK, port) for port in ports])
            machine = setup.config.engine
            assert isinstance(machine, VirtualMachine)
            config = structs.replace(
                setup.config,
                engine=structs.replace(machine, argv=(*machine.argv, *words)),
                listens=tuple(int(word) for word in words[:1]),  # where it waits for its gateway
            )
            laid_out[i] = LocalParty(replace(setup, config=config), at / f"party-{i}")
        try:
            for i, party_to_start in laid_out.items():
                parties[i] = party_to_start.start()
            shown = {i: party.certificate(600) or "" for i, party in parties.items()}
            if words:
                data = at / "party-0" / "Player-Data"
                trust(make_key(at, f"C{NUMBER}", f"C{NUMBER}"), data, f"C{NUMBER}")
            for party in parties.values():
                party.go(shown | {i: certificate.read_text() for i, certificate in held.items()})
            until(lambda: answers(LOOPBACK, ports[0]) or parties[0].exit_code() is not None)
            yield ports[0], parties[0]
        finally:
            for party in parties.values():
                party.kill()
                party.close()


def certificates(model: SecurityModel, at: Path, lifetime: timedelta = timedelta(days=1)) -> dict[int, Path]:
    """Return certificates of all parties but party 0, who stand-ins are to be."""
    return {i: make_key(at, f"P{i}", f"P{i}", lifetime) for i in range(1, model.parties)}


def lets_in(
    model: SecurityModel, at: Path, shown: Callable[[Path, Mapping[int, Path]], ssl.SSLContext]
) -> set[bool]:
    """Return whether party 0's machine accepts party 1, on each socket; all others show what it holds."""
    held = certificates(model, at)
    own = {i: context(certificate) for i, certificate in held.items()}
    with machines(model, at, held) as (port, _):
        accepted = joined(port, {**own, 1: shown(at, held)})
    return {accepted[name] for name in names("machine", 1)}


@each_model
def test_a_machine_lets_in_a_peer_by_its_certificate(model: SecurityModel, tmp_path: Path) -> None:
    assert lets_in(model, tmp_path, lambda _, held: context(held[1])) == {True}


@each_model
def test_a_machine_lets_in_nobody_without_a_certificate(model: SecurityModel, tmp_path: Path) -> None:
    assert lets_in(model, tmp_path, lambda *_: context(None)) == {False}


def signed_by(at: Path, issuer: Path) -> Path:
    """Return a certificate in party 1's name that another party's key signed."""
    made = make_key(at, "signed", "P1")
    of, by = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (made, issuer))
    key = serialization.load_pem_private_key(issuer.with_suffix(".key").read_bytes(), None)
    builder = x509.CertificateBuilder(by.subject, of.subject, of.public_key(), 1)
    dated = builder.not_valid_before(of.not_valid_before_utc).not_valid_after(of.not_valid_after_utc)
    signed = dated.sign(key, hashes.SHA256())  # type: ignore[arg-type]
    made.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + issuer.read_bytes())
    return made


def without_any(_: Path, __: Mapping[int, Path]) -> ssl.SSLContext:
    """Offer only ciphers in which nobody shows a certificate, and a server that wants one does not ask."""
    made = context(None)
    made.set_ciphers("aNULL:@SECLEVEL=0")
    return made


SHOWN: dict[str, Callable[[Path, Mapping[int, Path]], ssl.SSLContext]] = {
    "another party's": lambda _, held: context(held[2]),
    "a stranger's in its name": lambda at, _: context(make_key(at, "stranger", "P1")),
    "what another party signed": lambda at, held: context(signed_by(at, held[2])),
    "none, by anonymous ciphers": without_any,
}


@in_ring
@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_machine_lets_in_nobody_by_another_certificate(
    shown: Callable[[Path, Mapping[int, Path]], ssl.SSLContext], tmp_path: Path
) -> None:
    assert lets_in(RING, tmp_path, shown) == {False}


@in_ring
def test_a_machine_lets_in_nobody_by_a_certificate_that_has_expired(tmp_path: Path) -> None:
    held = certificates(RING, tmp_path, timedelta(seconds=3))
    ends = x509.load_pem_x509_certificate(held[1].read_bytes()).not_valid_after_utc
    with machines(RING, tmp_path, held) as (port, party):
        until(lambda: datetime.now(UTC) > ends + timedelta(seconds=1))
        if party.exit_code() is None:  # else it was refused before
            assert set(joined(port, {i: context(held[i]) for i in held}).values()) == {False}


@in_ring
def test_a_machine_takes_no_other_partys_session_for_a_certificate(tmp_path: Path) -> None:
    held = certificates(RING, tmp_path)
    by = context(held[2])
    with machines(RING, tmp_path, held) as (port, _):
        links = {name: greet(port, name) for i in held for name in names("machine", i)}
        own = [shake_hands(links.pop(name), by) for name in names("machine", 2)]
        resumed = []
        for link in links.values():
            assert own[0] is not None and own[0].session is not None
            resumed.append(shake_hands(link, by, own[0].session))
        for socket in (*own, *resumed):
            if socket is not None:
                socket.close()
    assert own[1] is not None and resumed == [None, None]


@in_ring
def test_who_takes_a_peers_name_again_needs_its_certificate(tmp_path: Path) -> None:
    """A machine forgets the first of two connections of one name that come before it looks."""
    held = certificates(RING, tmp_path)
    with machines(RING, tmp_path, held) as (port, _):
        first = [greet(port, name) for name in names("machine", 1)]
        accepted = joined(port, {1: context(None), 2: context(held[2])})
        for link in first:
            link.close()
    assert not any(accepted[name] for name in names("machine", 1))


@in_ring
def test_a_machine_ends_where_a_peer_speaks_in_the_clear(tmp_path: Path) -> None:
    held = certificates(RING, tmp_path)
    with machines(RING, tmp_path, held) as (port, party):
        links = [greet(port, name) for i in held for name in names("machine", i)]
        for link in links:
            link.sendall(hello("x" * 100))
        until(lambda: party.exit_code() is not None)
        for link in links:
            link.close()
    assert party.exit_code() != 0


@pytest.mark.mpspdz("semi2k")
@pytest.mark.parametrize("shows", [True, False], ids=["a certificate", "none"])
def test_a_machine_lets_in_its_gateway_by_its_certificate(shows: bool, tmp_path: Path) -> None:
    with free_ports(1) as (port,):
        words = (str(port), str(NUMBER))
        with machines(get_model("semi2k"), tmp_path, {}, OF_CLIENTS, words) as (_, party):
            until(lambda: answers(LOOPBACK, port) or party.exit_code() is not None)
            own = context(tmp_path / f"C{NUMBER}.pem" if shows else None)
            link = shake_hands(greet(port, str(NUMBER)), own)
            if link is not None:
                link.close()
    assert (link is not None) == shows
