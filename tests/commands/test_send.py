"""Clients that send while the parties run, by the commands: one's own step, and all roles on one machine."""

import json
import stat
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from protocols.circuits.coins import design_coins
from protocols.noise.truncated import error_bound
from tests.support.command import (
    call,
    files_below,
    finish,
    processes_below,
    read_json,
    refused,
    start,
    succeed,
)
from tests.support.running import until

pytestmark = pytest.mark.mpspdz("rep4-ring")
HEADER = "client_id,group,label\n"
DOMAIN = ("--groups", "a,b", "--labels", "0,1", "--max-count", "1000")
RELEASE = ("--epsilon", "20", "--security", "rep4-ring", "--input-form", "product", "--out", "out")
WITHIN = error_bound(design_coins(Fraction(20), 40), Fraction(1, 10**9))  # fails a test 4 in 10^9 times


def rows(client: str, group: str, zeros: int, ones: int) -> str:
    return f"{client},{group},0\n" * zeros + f"{client},{group},1\n" * ones


def close(here: Path, truth: list[list[int]]) -> bool:
    found = read_json(here / "out" / "weights.json")["noisy_counts"]
    return bool((np.abs(np.array(found) - truth) <= float(WITHIN) + 0.5).all())


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
        refused.returncode == 1 and "holds records of 2 clients; an invitation is for one" in refused.stderr
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
    ((mine,),) = ([each["charges"] for each in shown],)
    assert [(one["task"], one["epsilon_exact"], one["status"]) for one in mine] == [("weights", "20", "done")]
    assert list((tmp_path / "for-clients").iterdir()) == []
    assert processes_below(tmp_path) == {}


def test_a_run_goes_on_without_a_client_that_does_not_come(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(HEADER + rows("me", "a", 300, 20))
    asked = ("weights", "--invite", "for-clients", "--clients", "2", *DOMAIN, *RELEASE, "--verbose")
    sending = ("send", "--records", "mine.csv", "--invitation", "for-clients/client-0.json")
    for seconds in (8, 20, 100):  # a shorter one does if all is ready by then
        parties = start(*asked, "--timeout", str(seconds), cwd=tmp_path)
        until(lambda: (tmp_path / "for-clients" / "client-0.json").exists())
        accepted, done = finish(start(*sending, "--timeout", str(seconds), cwd=tmp_path)), finish(parties)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert accepted.returncode == 0 and "all 4 parties have its values" in accepted.stdout
    assert close(tmp_path, [[300, 20], [0, 0]])
    inputs = read_json(tmp_path / "out" / "manifest.json")["inputs"]
    assert inputs["excluded_because"] == {"did not come to all parties in time": 1}
    assert inputs["clients"] == 2 and inputs["excluded_uploads"] == 1
    told = "Uploads left out, by all parties alike: 1 did not come to all parties in time."
    assert told in " ".join(done.stdout.split())
