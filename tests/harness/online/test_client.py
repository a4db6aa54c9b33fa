"""Clients and fronts, with virtual machines played by the test: what arrives, is charged, and ends a run."""

import asyncio
import socket
import stat
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.charged import BegunCharge, Chargeable, Permission
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.errors import (
    BudgetError,
    ClientError,
    LedgerError,
    MaskError,
    OptionError,
    WriteError,
)
from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.client import (
    Invitations,
    LocalClients,
    Sender,
    check_directory,
    read_invitation,
    ready_to_send,
)
from fairshares.harness.online.messages import Channel
from fairshares.harness.online.session import Server
from fairshares.harness.party_reports import ClientsServed, reports_in
from fairshares.harness.privacy.ledger.charge import Account, Entry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.protocols.arrays import Words
from tests.support.events import a_run
from tests.support.fronts import SECONDS, TERMS, VALUES, Run, connect, play, send, send_values, until
from tests.support.running import ChargedToNobody

pytestmark = pytest.mark.usefixtures("in_shell")

EVENT = a_run()


@pytest.mark.parametrize("width", [8, 13, 16])
def test_values_arrive(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    async def script(run: Run) -> list[Any]:
        sent = await send(run, 0, 1)
        await asyncio.gather(*run.fronts)
        return sent

    run = Run(tmp_path, VALUES, 3, width)
    sent = play(run, script)
    assert run.arrived == {i: [1, 0, 2**31, 0, 7, 0, 1, -1, 3] for i in range(3)}
    assert sent == [4 + 32 + 4 + 24, 4 + 32 + 4 + 48]
    reports = reports_in(capsys.readouterr().out.splitlines())
    assert len(reports) == 3
    for report in reports:
        assert isinstance(report, ClientsServed)
        assert report.sent_bytes == sum(sent) < report.received_bytes
        assert (report.absent, report.failed, report.complained) == (0, 0, 0)


def test_a_front_stays_until_its_machine_has_taken_the_values(tmp_path: Path) -> None:
    """Once it ends, what the system has not yet sent is lost, and the machine waits for it for ever."""

    async def script(run: Run) -> None:
        await send(run, 0, 1)
        for party, front in enumerate(run.fronts):
            await front
            assert party in run.arrived

    play(Run(tmp_path, VALUES, 3, pause=0.3), script)


def test_every_client_draws_a_seed_of_its_own_for_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party that could guess a seed could change masks so that no sum of theirs shows it."""
    seeds: list[bytes] = []

    def stretch(seed: bytes, *sizes: int) -> Words:
        seeds.append(seed)
        return subsets(seed, *sizes)

    async def script(run: Run) -> None:
        await send(run, 0, 1, 2)
        await asyncio.gather(*run.fronts)

    subsets = masks.subsets
    monkeypatch.setattr(masks, "subsets", stretch)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        play(Run(tmp_path / name, [*VALUES, VALUES[0]], 3), script)
    assert len(seeds) == 2 * 3 * (3 + 1)  # each client's, at every front and at the client
    assert len(set(seeds)) == 6 and {len(seed) for seed in seeds} == {32}


@pytest.mark.parametrize("what", ["masks", "sums"])
@pytest.mark.parametrize("by", [1, 2**63])
def test_a_client_does_not_send_on_a_tampered_mask(
    tmp_path: Path, what: str, by: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Party 2 changes the last client's last mask, or what it says was opened; unnoticed with 2^-40.

    The client says so, and all parties go on without it.
    """

    def tamper(party: int, sends: str, words: Words) -> Words:
        changed = words.copy()
        if party == 2 and sends == what:
            changed[-1:] += np.uint64(by)
        return changed

    async def script(run: Run) -> list[Any]:
        sent = await send(run, 0, 1)
        await asyncio.gather(*run.fronts)
        return sent

    run = Run(tmp_path, VALUES, 3, tamper=tamper)
    first, second = play(run, script)
    assert isinstance(first, int) and isinstance(second, MaskError)
    assert "Client 1" in str(second) and "were not sent" in str(second)
    assert list(run.arrived.values()) == [[1, 0, 2**31, 0, 0, 0, 0, 0, 0]] * 3
    reports = reports_in(capsys.readouterr().out.splitlines())
    served = [report for report in reports if isinstance(report, ClientsServed)]
    assert [(report.absent, report.failed, report.complained) for report in served] == [(0, 0, 1)] * 3


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({**TERMS, "form": "split"}, "run with another form than this client was told"),
        ({**TERMS, "epsilon": "3"}, "do not agree on what they compute"),
        ({}, "run with another form"),
    ],
)
def test_a_client_does_not_send_on_other_terms(tmp_path: Path, terms: dict[str, Any], told: str) -> None:
    async def script(run: Run) -> list[Any]:
        return await send(run, 0)

    (error,) = play(Run(tmp_path, VALUES, 3, terms=[TERMS, TERMS, terms]), script)
    assert isinstance(error, ClientError) and told in str(error) and str(error).startswith("Client 0: ")


def test_a_client_does_not_talk_to_another_server(tmp_path: Path) -> None:
    """Parties 0 and 1 are mixed up: both have certificates of the run, each the wrong one."""

    async def script(run: Run) -> list[Any]:
        run.servers[:2] = [
            replace(run.servers[i], certificate=run.servers[1 - i].certificate) for i in (0, 1)
        ]
        return await send(run, 0)

    (error,) = play(Run(tmp_path, VALUES, 3), script)
    assert isinstance(error, ClientError) and "refused or ended the connection" in str(error)


def test_strangers_and_repeats_change_nothing(tmp_path: Path) -> None:
    """Nobody, noise, another's key, a client that leaves early, one that comes twice: all values arrive.

    MP-SPDZ's `get_client_connection` (`Processor/ExternalClients.cpp`, lines 45 to 69) takes clients one by
    one, under a lock and without a time limit. A name that is no number (line 58) ends the machine, as does a
    number that comes twice (`Networking/ServerSocket.cpp`, line 231). Silence in the handshake (line 61)
    stops all. Mend: drop such a connection, and do handshakes outside the lock.
    """

    async def script(run: Run) -> list[Any]:
        (tmp_path / "stranger").mkdir()
        foreign = make_key(tmp_path / "stranger", "C0", "C0")
        stranger = Sender(0, foreign, VALUES[0])
        nobody = await connect(run, 0, None)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await nobody.receive_first()
        reader, writer = await asyncio.open_connection(run.servers[0].host, run.servers[0].port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ClientError):
            await send_values(stranger, run.servers, TERMS, SECONDS)
        early = await connect(run, 0, 0)
        assert (await early.receive_first()).announced.values == 3
        early.close()
        await until(lambda: run.present() == [set()] * 3)
        first = asyncio.create_task(send_values(run.senders[0], run.servers, TERMS, SECONDS))
        await until(lambda: run.present() == [{0}] * 3)
        again = await asyncio.gather(
            send_values(run.senders[0], run.servers, TERMS, SECONDS), return_exceptions=True
        )
        sent = [*again, *await send(run, 1), await first]
        await asyncio.gather(*run.fronts)
        writer.close()
        assert reader is not None
        return sent

    run = Run(tmp_path, VALUES, 3)
    again, second, first = play(run, script)
    assert isinstance(again, ClientError) and "the parties go on without it" in str(again)
    assert isinstance(second, int) and isinstance(first, int)
    assert run.arrived[2] == [1, 0, 2**31, 0, 7, 0, 1, -1, 3]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int | str]:
    """What a client does: the sizes of what it sends, and when it is charged."""
    taken_steps: list[int | str] = []
    real = Channel.send

    async def sending(channel: Channel, payload: bytes) -> None:
        taken_steps.append(len(payload))
        await real(channel, payload)

    monkeypatch.setattr(Channel, "send", sending)
    return taken_steps


@pytest.mark.parametrize(
    ("refuses", "terms", "changed", "error"),
    [
        (False, TERMS, "", None),
        (True, TERMS, "", BudgetError),
        (False, {**TERMS, "form": "split"}, "", ClientError),
        (False, TERMS, "masks", MaskError),
    ],
)
def test_a_client_is_charged_right_before_its_masked_values_and_for_nothing_less(
    *,
    refuses: bool,
    terms: dict[str, Any],
    changed: str,
    error: type[Exception] | None,
    tmp_path: Path,
    steps: list[int | str],
) -> None:
    """What its budget does not cover is not sent; what was not sent is not charged."""

    def tamper(party: int, sends: str, words: Words) -> Words:
        return words + np.uint64(party == 2 and sends == changed)

    async def charged(run: Run) -> int:
        async with ready_to_send(run.senders[0], run.servers, TERMS, SECONDS) as ready:
            steps.append("charge")
            if refuses:
                raise BudgetError("no")
            return await ready.send(ChargedToNobody())

    async def script(run: Run) -> Any:
        run.ready.set()
        steps.clear()
        (outcome,) = await asyncio.gather(charged(run), return_exceptions=True)
        for front in run.fronts:
            front.cancel()
        await asyncio.gather(*run.fronts, return_exceptions=True)
        return outcome

    run = Run(tmp_path, [VALUES[0]], 3, tamper=tamper, terms=[terms] * 3)
    assert isinstance(play(run, script), error or int)
    # Without what parties send: masks, offsets and sums of one part, and their answers.
    own = [step for step in steps if step in ("charge", masks.SEED_BYTES, 8 * len(VALUES[0]))]
    if error is None:
        at = own.index("charge")
        assert own.count("charge") == 1 and masks.SEED_BYTES in own[:at] and own[at + 1 : at + 4] == [24] * 3
    elif refuses:
        # Parties may take the seeds, which were sent before, while the client waits for its sockets to close.
        assert own.count("charge") == 1 and run.arrived == {}
        assert 8 * len(VALUES[0]) not in own[own.index("charge") :]
    else:
        assert "charge" not in steps


def test_a_client_sends_once_and_on_its_own_charge_alone(tmp_path: Path) -> None:
    """A charge that was made for another client sends nothing; nor does one that has sent."""
    account = Account(Ledger(tmp_path / "ledger.sqlite"), "people")

    async def script(run: Run) -> int:
        run.ready.set()
        async with ready_to_send(run.senders[0], run.servers, TERMS, SECONDS) as ready:
            elsewhere = Entry(account).charge(EVENT, Chargeable())
            with pytest.raises(LedgerError, match="was made for another run"):
                await ready.send(elsewhere)
            assert run.arrived == {}
            charged = Entry(account).charge(EVENT, ready)
            sent = await ready.send(charged)
            with pytest.raises(LedgerError, match="has begun"):
                await ready.send(charged)
        await asyncio.gather(*run.fronts)
        return sent

    run = Run(tmp_path, [VALUES[0]], 3)
    assert play(run, script) == 4 + 32 + 4 + 24
    assert run.arrived[0] == [1, 0, 2**31]


PAIRS = [("certificate 0", "key 0"), ("certificate 1", "key 1")]
ASKED = {"epsilon": "1"}
SERVERS = [Server("127.0.0.1", 12000, "certificate")]


@dataclass(frozen=True)
class OneFails(LocalClients):
    """Clients of which the second fails as soon as the first has a connection.

    Attributes:
        connected: Is set then.
        tasks: Those of all clients. As they are held, no collection of garbage closes what they leave open.
    """

    connected: threading.Event = field(default_factory=threading.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def _send(self, sender: Sender, servers: Sequence[Server], permission: Permission) -> None:
        if sender.number == 1:
            await asyncio.to_thread(self.connected.wait, SECONDS)
            self.tasks.extend(asyncio.all_tasks())
            raise RuntimeError("nobody foresaw this")
        await super()._send(sender, servers, permission)


def test_a_client_that_fails_leaves_no_connection_of_the_others(tmp_path: Path) -> None:
    certificates = [make_key(tmp_path, name, name) for name in ("C0", "C1", "P0")]
    senders = [Sender(number, certificates[number], np.array([1])) for number in (0, 1)]
    with socket.create_server(("127.0.0.1", 0)) as party:
        server = Server("127.0.0.1", party.getsockname()[1], certificates[2].read_text())
        clients = OneFails(senders, TERMS, SECONDS)
        with clients.begin([server], BegunCharge()):
            connection, _ = party.accept()
            clients.connected.set()
            while not any(task.done() for task in clients.tasks):
                time.sleep(0.001)
        with connection:
            connection.settimeout(SECONDS / 4)
            with suppress(ConnectionResetError):
                while connection.recv(1 << 12):
                    pass


def test_all_connections_are_closed_although_one_has_ended_otherwise() -> None:
    """What the first says of its end, as it was reset, keeps none of the others open."""

    async def ended() -> list[bool]:
        with socket.create_server(("127.0.0.1", 0)) as party:
            channels = []
            accepted = []
            host, port = party.getsockname()
            for _ in range(2):
                channels.append(await wire.connected(host, port, lambda: False))
                accepted.append(party.accept()[0])
            reset = struct.pack("ii", 1, 0)
            accepted[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            for connection in accepted:
                connection.close()
            while not channels[0].reader.exception():
                await asyncio.sleep(0.001)
            await wire.close_all(channels)
            return [channel.writer.get_extra_info("socket").fileno() < 0 for channel in channels]

    assert asyncio.run(ended()) == [True, True]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_invitations_are_there_while_parties_run_and_private(tmp_path: Path) -> None:
    with Invitations(PAIRS, ASKED, tmp_path).begin(SERVERS, BegunCharge()):
        for k, (certificate, key) in enumerate(PAIRS):
            path = tmp_path / f"client-{k}.json"
            invitation = read_invitation(path)
            assert (invitation.client, invitation.certificate, invitation.key) == (k, certificate, key)
            assert (invitation.servers, invitation.terms) == (tuple(SERVERS), ASKED)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == set()


@pytest.mark.parametrize("other", ["file", "link"])
@pytest.mark.parametrize("name", ["client-0.json", "client-1.json"])
def test_a_file_of_an_invitations_name_is_left_alone(tmp_path: Path, name: str, other: str) -> None:
    """Seen before the parties start, and by whoever writes: a link would lead the keys elsewhere."""
    directory, elsewhere = tmp_path / "for-clients", tmp_path / "elsewhere"
    directory.mkdir(mode=0o700)
    if other == "file":
        (directory / name).write_text("mine")
    else:
        (directory / name).symlink_to(elsewhere)
    with pytest.raises(OptionError, match=f"{name} exists already; name another --invite, or remove it"):
        check_directory(directory, 2)
    with (
        pytest.raises(WriteError, match=r"Cannot write invitations to .*: File exists"),
        Invitations(PAIRS, ASKED, directory).begin(SERVERS, BegunCharge()),
    ):
        pass
    assert names(directory) == {name} and not elsewhere.exists()
    assert other == "link" or (directory / name).read_text() == "mine"


def test_what_replaced_an_invitation_is_left_alone(tmp_path: Path) -> None:
    """A client took the first away, and somebody put another file in place of the second."""
    first, second = (tmp_path / f"client-{k}.json" for k in (0, 1))
    with Invitations(PAIRS, ASKED, tmp_path).begin(SERVERS, BegunCharge()):
        first.rename(tmp_path / "taken.json")
        second.unlink()
        second.write_text("mine")
    assert names(tmp_path) == {"taken.json", "client-1.json"} and second.read_text() == "mine"


def test_a_failed_run_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Invitations(PAIRS, ASKED, tmp_path).begin(SERVERS, BegunCharge()):
        raise KeyboardInterrupt
    assert names(tmp_path) == set()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(OptionError, match=r"^Other users can write to .* name another --invite, or chmod"):
        check_directory(tmp_path, 1)


def test_so_is_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(OptionError, match="is not a directory of its own"):
        check_directory(tmp_path / "link", 1)
