"""Sums of vectors at hosts over ssh, by the commands and the classes that the pages name."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import OptionError, RecordDomainError, ShareError, UsedRevealError
from fairshares.harness.hosts.sums import SumsAtHosts
from fairshares.harness.uploads.vectors import UpdateClient
from tests.support.command import refused, succeed
from tests.support.sharing import trial_by_command
from tests.support.ssh import POLICY, Site, site

MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
DECLARED = {"vectors": {"coordinates": 2, "clip": 1, "reveals": 2, "units": 64}}
CLIENTS = 20
VECTOR = np.array([0.6, -0.8])
FAR = 10  # beyond noise of a standard deviation of 1.3 with a probability below 1e-12


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield hosts that are set up for a task of vectors, whose file is in the coordinator's home."""
    with site(tmp_path_factory.mktemp("site"), MODEL.parties) as made:
        (made.home / "policy.toml").write_text(POLICY.replace("2^-30", "1e-5").replace("2^-20", "1e-4"))
        succeed("hosts.setup", "--policy", "policy.toml", cwd=made.home)
        (made.home / "vectors.json").write_text(json.dumps(DECLARED))
        declared = ("--domain", "vectors.json", "--for-tasks", "sums", "--privacy-unit", "client")
        trial_by_command("task", MODEL, *declared, "--epsilon", "8", "--delta", "1e-5", cwd=made.home)
        for i in range(MODEL.parties):
            shutil.copy(made.home / "task" / "task.json", made.directory(i))
            shutil.move(made.home / "task" / f"keys-{i}", made.directory(i) / "sealing")
            (made.directory(i) / "shares").mkdir()
        yield made


def send(hosts: Site, reveal: int, clients: int = CLIENTS) -> None:
    """Have clients seal the vector for a reveal, each for itself, and bring it to each host's intake."""
    for number in range(clients):
        client = UpdateClient(hosts.home / "task" / "task.json", hosts.home.parent / f"client-{number}")
        sealed = client.seal(reveal, VECTOR)
        for i, envelope in enumerate(sealed.envelopes):
            (hosts.directory(i) / "shares" / f"{sealed.identity}.share").write_bytes(envelope)


def test_a_training_s_sums_come_from_hosts(hosts: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hosts.home)
    given: dict[str, Any] = {"epsilon": 8, "delta": "1e-5", "noise": "distributed", "population": "people"}
    sums = SumsAtHosts("hosts.toml", "task/task.json", **given, ledger="own.sqlite", out="sums")
    assert (sums.reveals, sums.next_reveal, float(sums.plan.exact.epsilon)) == (2, 1, 8.0)
    with pytest.raises(ShareError, match="upload"):
        sums.reveal()
    assert sums.next_reveal == 1  # nothing was charged
    for number in (1, 2):
        send(hosts, number)
        noisy = sums.reveal()
        assert noisy.shape == (2,) and np.abs(noisy - CLIENTS * VECTOR).max() < FAR
        assert sums.next_reveal == number + 1
        succeed("verify", f"sums/reveal-{number}", cwd=hosts.home)
    with pytest.raises(UsedRevealError, match="Reveal 2 of task"):
        sums.reveal(1)
    with pytest.raises(RecordDomainError, match="declares 2 reveals, and 3 is none of them"):
        sums.reveal()
    ledger = json.loads(succeed("ledger", "--ledger", "own.sqlite", "--json", cwd=hosts.home))
    (population,) = ledger["populations"]
    (charge,) = population["charges"]
    assert (charge["task"], charge["epsilon_exact"]) == ("sums", "8")
    assert json.loads(Path("sums/reveal-2/sums.json").read_text())["vectors"] == CLIENTS


def test_a_task_of_vectors_says_what_it_is_and_takes_no_records(hosts: Site, tmp_path: Path) -> None:
    file = str(hosts.home / "task" / "task.json")
    said = succeed("task", file, cwd=tmp_path)
    assert "Vectors: 2 coordinates, clipped to the norm 1, in steps of 1/64 of it; one of a client" in said
    assert "At most 2 sums of them are revealed, and spend ε once, together." in said
    (tmp_path / "records.csv").write_text("group,label\na,0\nb,1\n")
    shared = ("share", "--task", file, "--records", "records.csv", "--out", "sent")
    assert "The task is of vectors" in refused(*shared, cwd=tmp_path)
    paged = ("task", file, "--page", "page", "--site", "https://example.org/", "--open-link")
    assert "this task is of vectors" in refused(*paged, cwd=tmp_path)
    given: dict[str, Any] = {"epsilon": 1, "population": "none", "ledger": tmp_path / "ledger.sqlite"}
    with pytest.raises(OptionError, match="charged once, to a population"):
        SumsAtHosts(hosts.home / "hosts.toml", file, **given)
