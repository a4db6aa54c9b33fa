"""Sums of vectors at hosts over ssh: what the pages show, noise made ahead, and hosts that are killed."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairshares as fs
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import (
    OptionError,
    PartyFailedError,
    RecordDomainError,
    ShareError,
    StockError,
    UsedRevealError,
)
from tests.conftest import PROJECT
from tests.support.command import refused, succeed
from tests.support.documents import read
from tests.support.midway import charges, have_party_0_stop, parent, party_on, wait_until_midway
from tests.support.servers import certify, serving
from tests.support.ssh import POLICY, Site, site

MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
CLIENTS = 20
VECTOR = np.array([0.6, -0.8])
FAR = 10  # beyond noise of a standard deviation of 1.6 with a probability below 1e-9
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")
PAGE = PROJECT / "docs" / "how-to" / "train.md"


class Federation:
    """Hosts of parties, and servers that put what clients send into the hosts' directories.

    Attributes: site: the hosts; of_clients: a directory for those of clients.
    """

    def __init__(self, made: Site, address: str) -> None:
        self.site, self.of_clients, home = made, made.home.parent / "clients", made.home
        (home / "policy.toml").write_text(POLICY.replace("2^-30", "1e-5").replace("2^-20", "1e-4"))
        succeed("hosts.setup", "--policy", "policy.toml", cwd=home)
        for i in range(MODEL.parties):
            keys = ("--directory", f"keys-{i}", "--sealing", "x25519", "--until", "2999-01-01")
            succeed("keys", *keys, "--address", f"{address}{i}/", cwd=home)
            shutil.move(home / f"keys-{i}", made.directory(i) / "sealing")

    def declare(self, reveals: int) -> None:
        """Have the coordinator make a task of so many reveals, which the owners put on their hosts."""
        declared = {"vectors": {"coordinates": 2, "clip": 1, "reveals": reveals, "units": 64}}
        (self.site.home / "vectors.json").write_text(json.dumps(declared))
        self.declare_from("vectors.json")

    def declare_from(self, vectors: str) -> None:
        """Do the same for the vectors that a file of the coordinator declares."""
        home = self.site.home
        hosts = [self.site.directory(i) for i in range(MODEL.parties)]
        (home / "task.json").unlink(missing_ok=True)
        succeed(
            *("task", "task.json", "--parties", ",".join(str(host / "sealing/party.json") for host in hosts)),
            *("--domain", vectors, "--for-tasks", "sums", "--privacy-unit", "client"),
            *("--epsilon", "8", "--delta", "1e-5", "--least-uploads", "1", "--until", "2999-01-01"),
            *("--security", MODEL.name),
            cwd=home,
        )
        for host in hosts:
            shutil.copy(home / "task.json", host)
            shutil.rmtree(host / "shares", ignore_errors=True)
            (host / "shares").mkdir()

    def sums(self, population: str, **changes: Any) -> fs.SumsAtHosts:
        """Return the coordinator's sums, with results and a ledger of that name in its home."""
        given = {"epsilon": 8, "delta": "1e-5", "noise": "distributed", "population": population, **changes}
        home = self.site.home
        ledger = home / f"{population}.sqlite"
        return fs.SumsAtHosts(
            home / "hosts.toml", home / "task.json", ledger=ledger, out=home / population, **given
        )

    def send(self, reveal: int) -> None:
        """Have clients seal and send the vector for a reveal, each for itself."""
        for number in range(CLIENTS):
            client = fs.UpdateClient(self.site.home / "task.json", self.of_clients / str(number))
            client.seal(reveal, VECTOR)
            assert sum(client.send(reveal).values()) == MODEL.parties

    def charges(self, population: str) -> list[list[tuple[str, str]]]:
        """Return what each host's ledger says that these people spent."""
        return [charges(self.site.directory(i), population) for i in range(MODEL.parties)]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Yield hosts that are set up, and have keys for what clients seal."""
    place = tmp_path_factory.mktemp("site")

    def answer(path: str, body: bytes) -> int:
        _, party, name = path.split("/")
        (place / f"host-{party}" / "shares" / name).write_bytes(body)
        return 201

    with pytest.MonkeyPatch.context() as changed, site(place, MODEL.parties) as made:
        certificates = place / "servers"
        certificates.mkdir()
        changed.setenv("SSL_CERT_FILE", str(certify(certificates)))
        with serving(certificates / "server.pem", answer) as address:
            yield Federation(made, address)


def is_near(noisy: Any) -> bool:
    """Return whether a noisy sum is that of the clients' vectors but for noise."""
    return bool(noisy.shape == (2,) and np.abs(noisy - CLIENTS * VECTOR).max() < FAR)


def test_a_training_by_the_programs_of_the_page(
    hosts: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients and coordinator have a directory each. Data are a vector, from which each model is away."""
    home = hosts.site.home
    monkeypatch.chdir(home)
    hosts.declare(reveals=2)
    of_client, of_coordinator = (
        compile(snippet.text, str(PAGE), "exec")
        for snippet in read(PAGE).snippets
        if snippet.language == "python"
        and any("tests/commands/test_sums_at_hosts.py" in said for said in snippet.said)
    )
    told = []

    def tell_clients(number: int, model: Any) -> None:
        told.append(number)
        for client in range(CLIENTS):
            place = hosts.of_clients / f"page-{client}"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(home / "task.json", place)
            with contextlib.chdir(place):
                for _ in range(2):  # which sends the same vector
                    exec(of_client, {"reveal": number, "model": model, "point": VECTOR})

    with pytest.raises(ShareError, match="upload"):
        hosts.sums("people").reveal()
    assert hosts.charges("people") == [[]] * MODEL.parties
    names: dict[str, Any] = {"tell_clients": tell_clients}
    exec(of_coordinator, names)
    assert told == [1, 2] and np.abs(names["model"] - VECTOR).max() < FAR / CLIENTS
    assert capsys.readouterr().out.endswith("at ε = 8\n")
    for number in told:
        succeed("verify", f"rounds/reveal-{number}", cwd=home)
        assert json.loads(Path(f"rounds/reveal-{number}/sums.json").read_text())["vectors"] == CLIENTS
    sums = names["sums"]
    assert (sums.reveals, sums.next_reveal) == (2, 3)
    with pytest.raises(UsedRevealError, match="Reveal 2 of task"):
        sums.reveal(1)
    with pytest.raises(RecordDomainError, match="declares 2 reveals, and 3 is none of them"):
        sums.reveal()
    ledger = json.loads(succeed("ledger", "--json", cwd=home))
    (charged,) = [each for each in ledger["populations"] if each["population"] == "people"]
    (charge,) = charged["charges"]
    assert (charge["task"], charge["epsilon_exact"]) == ("sums", "8")
    assert [len(of_host) for of_host in hosts.charges("people")] == [1] * MODEL.parties


def test_a_training_by_commands(hosts: Federation, tmp_path: Path) -> None:
    """Of one round: the coordinator and each client have a directory of their own."""
    home = hosts.site.home
    (home / "features.json").write_text('{"income": {"low": 0, "high": 70}}')
    model = ("--features", "features.json", "--groups", "a,b", "--labels", "no,yes", "--rounds", "1")
    spends = ("--epsilon", "8", "--noise", "distributed", "--population", "by-commands")
    of_some = ("--participations", "1")
    succeed("train", *model, *of_some, "--epsilon", "8", "--vectors", "of-model.json", cwd=home)
    hosts.declare_from("of-model.json")
    over = ("--hosts", "hosts.toml", "--task", "task.json", "--clients", "3", "--out", "trained")
    said = succeed("train", *model, *of_some, *spends, *over, cwd=home)
    assert "Round 1 of 1: give clients trained/round.json" in said
    for number, (group, label, income) in enumerate((("a", "yes", 60), ("b", "no", 10), ("b", "yes", 50))):
        own = tmp_path / str(number)
        own.mkdir()
        for public in (home / "task.json", home / "trained/round.json"):
            shutil.copy(public, own)
        (own / "mine.csv").write_text(f"group,label,income\n{group},{label},{income}\n")
        of_round = ("--task", "task.json", "--round", "round.json", "--records", "mine.csv")
        shared = ("share", *of_round, "--out", "sent", "--to", "task")
        assert f"Reveal 1: {MODEL.parties} stored (HTTP 201)" in succeed(*shared, cwd=own)
        assert succeed(*shared, cwd=own) == "Reveal 1: nothing to send.\n"
    said = succeed("train", *model, *spends, *over, cwd=home)
    assert "Logistic regression of 2 labels by 1 noisy sums of updates of 3 clients." in said
    trained = fs.LogisticModel.load(home / "trained")
    assert trained.parameters.shape == (1, 2) and np.abs(trained.parameters).max() < FAR / 3
    said = succeed("verify", "trained", cwd=home)
    assert f"The model follows from 1 sums that all {MODEL.parties} hosts signed" in said
    manifest = json.loads((home / "trained/manifest.json").read_text())
    assert manifest["privacy"]["epsilon_exact"] == "8" and manifest["inputs"]["clients"] == 3
    assert manifest["privacy"]["participations"] == 1
    assert [len(of_host) for of_host in hosts.charges("by-commands")] == [1] * MODEL.parties


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--with", "weights"), "Over hosts, weights are a release of their own"),
        (("--cap", "2"), "--cap is for a training on one machine"),
        (("--participations", "1"), "The task's ε is for a client in 2 of its 2 reveals at most, not in 1"),
        (("--rounds", "3"), "The task declares 2 coordinates, the norm 1, 2 reveals"),
        (("--clip", "2"), "repeat the options for which --vectors wrote the task's declaration"),
        (("--out", "of-training"), "--hosts needs --clients 1000"),
        (("--security", "rep4-ring"), "leave out --security"),
    ],
)
def test_a_training_over_hosts_is_refused_before_anything_is_asked(
    more: tuple[str, str], sentence: str, hosts: Federation
) -> None:
    home = hosts.site.home
    hosts.declare(reveals=2)
    (home / "features.json").write_text('{"income": {"low": 0, "high": 70}}')
    given = {"--rounds": "2", "--groups": "a,b", "--labels": "no,yes", "--features": "features.json"}
    options = [word for pair in {**given, more[0]: more[1]}.items() for word in pair]
    spends = ("--epsilon", "8", "--population", "nobody-yet", "--hosts", "hosts.toml", "--task", "task.json")
    assert sentence in refused("train", *options, *spends, cwd=home)


def test_noise_that_was_made_ahead_is_in_one_reveal(hosts: Federation) -> None:
    """Without a piece the next one is refused, neither charged nor used."""
    hosts.declare(reveals=3)
    hosts.send(1)
    sums = hosts.sums("ahead", noise="joint", offline=True)
    assert len(sums.preprocess(1)) == 1
    assert is_near(sums.reveal())
    succeed("verify", "ahead/reveal-1", cwd=hosts.site.home)
    hosts.send(2)
    charged = hosts.charges("ahead")
    with pytest.raises(StockError):
        sums.reveal()
    assert hosts.charges("ahead") == charged and [len(of_host) for of_host in charged] == [1] * MODEL.parties
    assert sums.next_reveal == 2


@needs_proc
def test_a_reveal_in_which_a_host_is_killed_is_used_at_all_hosts(hosts: Federation) -> None:
    """Its clients seal for the next one, which works; both are charged once, together."""
    hosts.declare(reveals=4)
    hosts.send(1)
    with ThreadPoolExecutor(1) as pool:
        have_party_0_stop(hosts.site)
        sums = hosts.sums("killed")
        run = pool.submit(sums.reveal)

        def has_ended() -> bool:
            assert not run.done(), run.exception()
            return False

        wait_until_midway(hosts.site, MODEL, has_ended)
        os.kill(parent(party_on(hosts.site.directory(1))), signal.SIGKILL)  # its party dies with it
        with pytest.raises(PartyFailedError):
            run.result()
    before = hosts.charges("killed")
    assert [len(of_host) for of_host in before] == [1] * MODEL.parties
    sums = hosts.sums("killed")  # another process, later
    assert sums.next_reveal == 2
    with pytest.raises(UsedRevealError, match="Have clients seal for reveal 2, which adds noise"):
        sums.reveal(1)
    (hosts.site.home / "killed.sqlite").unlink()  # by the hosts' own ledgers, too
    with pytest.raises(UsedRevealError):
        hosts.sums("killed").reveal(1)
    hosts.send(2)
    assert is_near(hosts.sums("killed").reveal(2))
    assert [[epsilon for epsilon, _ in of_host] for of_host in hosts.charges("killed")] == [
        [epsilon for epsilon, _ in of_host] for of_host in before
    ]


def test_a_task_of_vectors_says_what_it_is_and_takes_no_records(hosts: Federation, tmp_path: Path) -> None:
    hosts.declare(reveals=2)
    file = str(hosts.site.home / "task.json")
    said = succeed("task", file, cwd=tmp_path)
    assert "Vectors: 2 coordinates, clipped to the norm 1, in steps of 1/64 of it; one of a client" in said
    assert "At most 2 sums of them are revealed, and spend ε once, together." in said
    (tmp_path / "records.csv").write_text("group,label\na,0\nb,1\n")
    shared = ("share", "--task", file, "--records", "records.csv", "--out", "sent")
    assert "The task is of vectors" in refused(*shared, cwd=tmp_path)
    paged = ("task", file, "--page", "page", "--site", "https://example.org/", "--open-link")
    assert "this task is of vectors" in refused(*paged, cwd=tmp_path)
    with pytest.raises(OptionError, match="charged once, to a population"):
        hosts.sums("none")
