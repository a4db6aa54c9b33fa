"""Clients that send while the parties run: what each is shown before, what is reported, who is left out."""

import asyncio
import json
import os
import signal
import ssl
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairshares.harness.charged import Permission
from fairshares.harness.engines.execution import PROGRAMS, EngineResult, PrivateJob
from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.online import client as sending, messages as wire
from fairshares.harness.online.client import SCHEMA, LocalClients
from fairshares.harness.online.messages import Channel
from fairshares.harness.online.session import Server
from fairshares.harness.pipeline.sources import local_clients
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.clients import checks
from fairshares.protocols.circuits.coins import MAX_EPSILON, design_noise
from fairshares.protocols.circuits.noise import fair_bits_per_sample, input_widths
from fairshares.protocols.guarantee import Budget, Guarantee
from fairshares.protocols.noise.truncated import error_bound
from fairshares.protocols.spec import CLIENTS, PRODUCT, InputForm
from tests.support.command import (
    CODES,
    call,
    files_below,
    finish,
    processes_below,
    read_json,
    refused,
    start,
    succeed,
)
from tests.support.running import model_parameters, run_job, until

needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")
MODEL = MODELS["ring"]
DELTA_BITS = 40
SENT = [np.array([1, 500, 200]), np.array([0, 300, 300]), np.array([1, 0, 100])]  # is a; count per label
COUNTS = [500, 300, 300, 300]
TERMS: dict[str, Any] = {"security": MODEL.name}


def job(directory: Path, model: SecurityModel = MODEL, more: int = 0) -> PrivateJob:
    """Return π_RW in product form on three clients, one with each connection, and more that send the same."""
    directory.mkdir()
    coins, clients = design_noise(MAX_EPSILON, DELTA_BITS), len(SENT) + more
    arguments = ("product", "clients", model.parties, clients, clients, 2, 2, MAX_EPSILON, DELTA_BITS)
    return PrivateJob(
        PI_RW,
        PROGRAMS / "pi_rw.mpc",
        tuple(map(str, arguments)),
        local_clients([*SENT, *[SENT[0]] * more], TERMS, directory, 600.0),
        fair_bits=tuple((width, 4) for width in input_widths(fair_bits_per_sample(coins))),
    )


def run(one: PrivateJob, work: Path, timeout_s: float = 600.0, model: SecurityModel = MODEL) -> EngineResult:
    return run_job(one, model, work, timeout_s)


def are_counts(opened: Sequence[int], of: Sequence[int] = COUNTS) -> bool:
    """Noise beyond its exact quantile makes this false in 1 of 10^9 runs."""
    within = error_bound(design_noise(MAX_EPSILON, DELTA_BITS), Fraction(1, 10**9))
    return bool(max(abs(np.array(opened) + 0.5 - of)) <= within)


def nothing_is_left(directory: Path) -> bool:
    return processes_below(directory) == {} and not (directory / "parties").exists()


@needs_proc
@pytest.mark.mpspdz("ring")
def test_clients_values_and_their_traffic(tmp_path: Path) -> None:
    result = run(job(tmp_path / "clients"), tmp_path / "parties")
    assert are_counts(result.outputs["counts"]) and result.left_out == {}
    seed, masked, accepted, offsets = 4 + 32, 4 + 24, 4 + 8, 4 + checks(3) * 8
    traffic = zip(result.client_sent_bytes or (), result.client_received_bytes or (), strict=True)
    for sent, received in traffic:
        assert sent == 3 * (seed + masked)
        assert received > 3 * (masked + 2 * offsets + accepted)  # and the terms
    assert nothing_is_left(tmp_path)


Lies = Callable[[Sequence[Channel]], Awaitable[None]]


async def sends_each_party_another_seed(parties: Sequence[Channel]) -> None:
    for i, party in enumerate(parties):
        await party.send(bytes([i + 1] * 32))


async def sends_each_party_other_values(parties: Sequence[Channel]) -> None:
    for party in parties:
        await party.send(bytes([1] * 32))
    for party in parties:
        await party.receive(SUMS * 8)
    for i, party in enumerate(parties):
        await party.send(bytes([i + 1] * 24))


LIARS: dict[Lies, str] = {
    sends_each_party_another_seed: "did not come to all parties in time",
    sends_each_party_other_values: "did not send all parties the same values in time",
}
SUMS = checks(len(SENT) + 1)


def with_a_liar(one: PrivateJob, lies: Lies) -> PrivateJob:
    """Return the job with a last client that speaks the protocol as it likes."""
    assert one.sending is not None
    clients = one.sending.clients
    assert isinstance(clients, LocalClients)
    *senders, liar = clients.senders
    honest = replace(clients, senders=senders)

    async def lie(servers: Sequence[Server]) -> None:
        channels: list[Channel] = []
        try:
            for server in servers:
                context = wire.context(ssl.PROTOCOL_TLS_CLIENT, liar.certificate, server.certificate)
                knocks = wire.knock(server.certificate, liar.certificate.read_text())
                channels.append(
                    await wire.connected(server.host, server.port, lambda: True, tls=context, knocks=knocks)
                )
            for channel in channels:
                await channel.receive_first()
                await channel.receive(24)
                await channel.receive(SUMS * 8)
            await lies(channels)
        finally:
            await wire.close_all(channels)

    class Both:
        @contextmanager
        def begin(self, servers: Sequence[Server], permission: Permission) -> Iterator[None]:
            with honest.begin(servers, permission), ThreadPoolExecutor(1) as pool:
                lied = pool.submit(lambda: asyncio.run(lie(servers)))
                yield
            with suppress(OSError, asyncio.IncompleteReadError):
                lied.result()

    return replace(one, values=replace(one.sending, clients=Both()))


@needs_proc
@pytest.mark.parametrize("lies", LIARS)
@pytest.mark.parametrize(("form", "model"), model_parameters(PRODUCT.by(CLIENTS)))
def test_no_client_has_parties_compute_on_different_numbers(
    form: InputForm, model: SecurityModel, lies: Lies, tmp_path: Path
) -> None:
    """It is left out, and the others count; an active model's check of parties would else end the run."""
    one = with_a_liar(job(tmp_path / "clients", model, more=1), lies)
    result = run(one, tmp_path / "parties", model=model)
    assert are_counts(result.outputs["counts"]) and result.left_out == {LIARS[lies]: 1}
    assert nothing_is_left(tmp_path)


@needs_proc
@pytest.mark.mpspdz("ring")
def test_a_machine_that_died_is_named_not_the_clients_that_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients have their masks then, and leave all parties when one of them is gone."""

    def kill_and_draw(size: int) -> bytes:
        for pid, cwd in processes_below(tmp_path).items():
            if cwd.name == "party-1" and Path(f"/proc/{pid}/exe").readlink().name == MODEL.virtual_machine:
                os.kill(pid, signal.SIGKILL)
        return bytes(size)

    monkeypatch.setattr(sending, "secrets", SimpleNamespace(token_bytes=kill_and_draw))
    with pytest.raises(PartyFailedError, match=r"^Party 1 was killed by SIGKILL"):
        run(job(tmp_path / "clients"), tmp_path / "parties")
    assert nothing_is_left(tmp_path)


HEADER = "client_id,group,label\n"
DOMAIN = ("--groups", "a,b", "--labels", "0,1", "--max-count", "1000")
RELEASE = ("--epsilon", "20", "--security", "rep4-ring", "--input-form", "product", "--out", "out")
WITHIN = error_bound(design_noise(Fraction(20), 40), Fraction(1, 10**9))  # fails a test 4 in 10^9 times


def rows(client: str, group: str, zeros: int, ones: int) -> str:
    return f"{client},{group},0\n" * zeros + f"{client},{group},1\n" * ones


def close(here: Path, truth: list[list[int]]) -> bool:
    counts = read_json(here / "out" / "weights.json")["noisy_counts"]
    return bool((np.abs(np.array(counts) - truth) <= float(WITHIN) + 0.5).all())


@pytest.mark.mpspdz("rep4-ring")
def test_an_active_model_multiplies_what_clients_send(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(HEADER + rows("c0", "a", 300, 20) + rows("c1", "b", 0, 500))
    arguments = ("weights", "--records", "all.csv", *DOMAIN, *RELEASE)
    assert "use --input-path clients or replicated" in refused(*arguments, cwd=tmp_path)
    before = files_below(tmp_path)
    said = succeed(*arguments, "--input-path", "clients", "--verbose", cwd=tmp_path)
    assert "cannot change what a client sent unnoticed, but for probability 2^-40" in " ".join(said.split())
    assert close(tmp_path, [[300, 20], [0, 500]])
    manifest = read_json(tmp_path / "out" / "manifest.json")
    assert manifest["privacy"]["input_path"] == "authenticated client input"
    assert manifest["inputs"] == {"clients": 2, "uploads": 2, "max_count": 1000}
    assert manifest["client_sent_bytes"] == [2 * (4 + 32 + 4 + 24)] * 4
    assert len(manifest["client_received_bytes"]) == 4
    assert files_below(tmp_path) - before == {"out", "out/weights.json", "out/manifest.json"}


@pytest.mark.mpspdz("rep4-ring")
def test_invited_clients_send_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(HEADER + rows("me", "a", 300, 20))
    (tmp_path / "none.csv").write_text(HEADER)
    (tmp_path / "two.csv").write_text(HEADER + rows("me", "a", 1, 0) + rows("you", "a", 1, 0))
    asked = ("weights", "--invite", "for-clients", "--clients", "2", *DOMAIN, *RELEASE, "--timeout", "600")
    parties = start(*asked, cwd=tmp_path)
    invitations = [tmp_path / "for-clients" / f"client-{k}.json" for k in (0, 1)]
    until(lambda: all(path.exists() for path in invitations))
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in invitations)
    refused = call("send", "--records", "two.csv", "--invitation", str(invitations[0]), cwd=tmp_path)
    assert (
        refused.returncode in CODES
        and "holds records of 2 clients; an invitation is for one" in refused.stderr
    )
    senders = [
        start("send", "--records", name, "--invitation", str(path), "--ledger", name[:4], cwd=tmp_path)
        for name, path in zip(("mine.csv", "none.csv"), invitations, strict=True)
    ]
    for k, sender in enumerate(senders):
        sent = finish(sender)
        assert sent.returncode == 0, sent.stderr
        assert f"Client {k}: all 4 parties have its values" in sent.stdout
        assert "Spent in 1 run: ε = 20 and δ = 9.095e-13; no budget is set." in " ".join(sent.stdout.split())
    done = finish(parties)
    assert done.returncode == 0, done.stderr
    assert close(tmp_path, [[300, 20], [0, 0]])
    shown = json.loads(call("ledger", "--ledger", "mine", "--json", cwd=tmp_path).stdout)["populations"]
    ((mine,),) = ([population["charges"] for population in shown],)
    assert [(one["task"], one["epsilon_exact"], one["status"]) for one in mine] == [("weights", "20", "done")]
    assert list((tmp_path / "for-clients").iterdir()) == [] and processes_below(tmp_path) == {}


TOLD_DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 10}
REQUEST = {
    "task": "weights",
    "security": "ring",
    "input_form": "product",
    "input_path": "clients",
    "epsilon": "3/2",
    "delta": "1/1099511627776",
    "neighboring_relation": "add_or_remove_one",
    "privacy_unit": "record",
    "noise": "joint",
    "noise_family": "by-epsilon",
    "reweighing": "balanced",
}


def send(here: Path, *options: str, **changes: str | None) -> tuple[str, str]:
    """Try to send on these terms to nobody; return what was printed, and the error.

    Args: changes: of the request; None for a field that is left out.
    """
    certificate = here / "C0.pem"
    if not certificate.exists():
        make_key(here, "C0", "C0")
    asked = {**REQUEST, **changes}
    invitation = {
        "schema": SCHEMA,
        "client": 0,
        "certificate": certificate.read_text(),
        "key": certificate.with_suffix(".key").read_text(),
        "servers": [{"host": "127.0.0.1", "port": 9, "certificate": certificate.read_text()}],
        "terms": {
            "request": {name: text for name, text in asked.items() if text},
            "domain": TOLD_DOMAIN,
            "attempts": 0,
        },
    }
    (here / "client-0.json").write_text(json.dumps(invitation))
    (here / "mine.csv").write_text("client_id,group,label\nme,a,1\n")
    files = ("--records", "mine.csv", "--invitation", "client-0.json")
    done = call("send", *files, "--timeout", "0.2", *options, cwd=here)
    assert done.returncode in CODES
    return " ".join(done.stdout.split()), " ".join(done.stderr.split())


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_the_terms_are_shown_first_and_claim_what_the_model_withstands(
    tmp_path: Path, model: SecurityModel
) -> None:
    shown, error = send(tmp_path, "--epsilon", "1.5", security=model.name)
    assert "were not ready for its values within 0.2 s" in error and "have its values" not in shown
    assert shown.startswith(
        "The run reveals: noisy count of records per (group, label), to all parties. Guarantee: (ε, "
        "δ)-differential privacy with ε = 1.5 and δ = 9.095e-13 in total, for one record of yours added or "
        f"removed. Computation: {model.parties} parties, model {model.name}: no single party learns anything"
    )
    passive = model.name in ("ring", "semi2k", "sy-rep-ring", "shamir", "mpyc")
    assert (
        "no single party learns anything more if it follows the protocol (passive, or semi-honest)." in shown
    ) == passive
    assert ("or changes a value unnoticed, but for a probability of 2^-40 each." in shown) != passive


def test_a_run_that_spends_more_than_the_client_accepts_gets_nothing(tmp_path: Path) -> None:
    shown, error = send(tmp_path, "--epsilon", "1.4999", neighboring_relation="replace_one")
    assert "for one record of yours replaced by another" in shown
    assert error == (
        "Error: This run spends ε = 1.5, and --epsilon 1.4999 is the most that you accept; nothing was sent."
    )
    for delta, given in (("1/1000", ()), ("1/1099511627776", ("--delta", "1e-13"))):
        _, error = send(tmp_path, *given, delta=delta)
        most = given[1] if given else "2^-30"
        assert f"and --delta {most} is the most that you accept; nothing was sent." in error


def test_parties_are_named_and_others_than_the_known_ones_get_nothing(tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    for line, told in (
        ("00:" * 31 + "00", "have other certificates than --fingerprints names, in the order of the parties"),
        ("00", "must hold a line for each party, 0 first"),
    ):
        known.write_text(line)
        shown, error = send(tmp_path, "--fingerprints", "known.txt")
        assert shown == "" and told in error
    own = fingerprint((tmp_path / "C0.pem").read_bytes())
    known.write_text(f"sha256 Fingerprint={own}\n\n")
    shown, error = send(tmp_path, "--fingerprints", "known.txt")
    assert f"Party 0: 127.0.0.1:9, SHA-256 of its certificate {own}." in shown and "were not ready" in error


def test_a_client_keeps_an_account_of_what_it_has_sent_to(tmp_path: Path) -> None:
    """What its budget does not cover gets no connection, and nothing is charged that was not sent to."""
    ledger = Ledger(tmp_path / "own.sqlite")
    account = ("--ledger", "own.sqlite", "--budget", "1.5")
    _, error = send(tmp_path, *account)
    assert "were not ready for its values" in error and not ledger.path.exists()
    _, error = send(tmp_path, *account, epsilon="31/20")
    assert "has ε = 1.5 left of its budget of 1.5" in error and error.endswith("Nothing was sent.")
    record = PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE
    spends = Guarantee(Fraction(1), Fraction(1, 2**40))
    ledger.charge("me", Budget(Fraction(2)), PrivacyEvent("weights", "ring", spends, *record, Path("before")))
    _, error = send(tmp_path, "--ledger", "own.sqlite", "--population", "ME")
    assert "has ε = 1 left of its budget of 2, after 1 run" in error and "Nothing was sent." in error
    _, error = send(tmp_path, "--ledger", "own.sqlite", "--population", "others", "--budget", "9")
    assert "were not ready for its values" in error and [
        population.name for population in ledger.populations()
    ] == ["me"]
    ledger.path.write_text("?" * 100)
    _, error = send(tmp_path, "--ledger", "own.sqlite")
    assert "own.sqlite: it is no database" in error and error.endswith("Nothing was sent.")
