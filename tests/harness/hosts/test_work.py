"""What a host's agent does not do, whoever asks it over ssh; what it cleans up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engines.base import PROJECT
from harness.errors import HostUnfitError, ShareError, UnsupportedError
from harness.hosts import cleanup, wire
from harness.hosts.work import Sending, Work
from harness.inputs.aggregation import ANY, UNREADABLE, UploadPolicy, report_from_json
from harness.inputs.contribution_bounds import Cap
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import XOR
from harness.inputs.shares import share
from harness.pipeline.terms import read_terms
from harness.system.files import PREFIX
from harness.system.processes import birth
from protocols.spec import SLOTS

BODY = b"share"
PREPARE: dict[str, Any] = {
    "run": "0" * 32,
    "party": 0,
    "model": "mpyc",
    "protocol": "pi_lap",
    "fair_bits": [(59, 1)],  # of a sample at epsilon 1 and delta 2^-40
}


def read_body(size: int, descriptor: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(BODY[:size])


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    (tmp_path / "host").mkdir(mode=0o700)
    with ExitStack() as stack:
        yield Work(tmp_path / "host", stack, read_body)


def test_a_file_has_a_share_files_name_and_comes_once(work: Work, tmp_path: Path) -> None:
    work.put_file("0a.share", 5)
    (taken,) = (tmp_path / "host").glob(f"{PREFIX}*/received/*")
    assert (taken.name, taken.read_bytes()) == ("0a.share", BODY)
    for name in ("../up.share", "0a.share", "party.json", "a/b.share", ".share"):
        with pytest.raises(ShareError, match="is no name of a new share file"):
            work.put_file(name, 5)
    assert [path.name for path in taken.parent.iterdir()] == ["0a.share"]


@pytest.mark.parametrize("argument", ["-D", "--output=x", "a b", "", "$(x)", "a\nb"])
def test_no_argument_becomes_an_option(argument: str, work: Work) -> None:
    with pytest.raises(HostUnfitError, match="what no command of FairShares asks for"):
        work.prepare(**PREPARE, arguments=["3", argument], addresses=[("127.0.0.1", 1)] * 3)


def test_noise_comes_from_all_parties(work: Work) -> None:
    """A program that was told of fewer would draw its noise from fewer parties' bits."""
    with pytest.raises(UnsupportedError, match="pi_lap was laid out for 2 parties"):
        work.prepare(**PREPARE, arguments=["2", "1", "1", "40"], addresses=[("127.0.0.1", 1)] * 3)


@pytest.mark.parametrize("widths", [[], [0], [58], [60], [59, 59], [1] * 59])
def test_whoever_asks_cannot_take_noise_away(widths: list[int], work: Work) -> None:
    """Integers with fewer random bits have zeros for the others, and the noise would be known."""
    asked = {**PREPARE, "fair_bits": [(width, 1) for width in widths]}
    with pytest.raises(UnsupportedError, match="draw other numbers of random bits than its noise takes"):
        work.prepare(**asked, arguments=["3", "1", "1", "40"], addresses=[("127.0.0.1", 1)] * 3)


@pytest.mark.parametrize("epsilon", ["1/0", "x", "21"])
def test_no_epsilon_without_noise(epsilon: str, work: Work) -> None:
    with pytest.raises(UnsupportedError, match="no noise for its arguments"):
        work.prepare(**PREPARE, arguments=["3", "1", epsilon, "40"], addresses=[("127.0.0.1", 1)] * 3)


def test_no_run_without_keys_and_no_party_unprepared(work: Work) -> None:
    with pytest.raises(HostUnfitError, match=r"No own certificate is there; run \./inv hosts\.setup"):
        work.prepare(**PREPARE, arguments=["3", "1", "1", "40"], addresses=[("127.0.0.1", 1)] * 3)
    for request in (work.state, lambda: work.start(1.0), lambda: work.go({})):
        with pytest.raises(HostUnfitError, match="has prepared no party"):
            request()


@pytest.mark.mpspdz("ring")
def test_clients_are_told_what_runs(work: Work) -> None:
    """Whoever starts a run writes invitations as it likes; a host does not run one thing and tell another."""
    told: dict[str, Any] = {
        "task": "weights",
        "model": "ring",
        "input_form": "product",
        "domain": {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 10},
        "epsilon": "1",
        "delta": "1/1099511627776",
        "neighboring_relation": "add_or_remove_one",
    }
    certificates = ["first", "second"]
    promised = read_terms(told, "x").job(certificates)
    asked: dict[str, Any] = {
        "run": "0" * 32,
        "party": 0,
        "model": "ring",
        "protocol": "pi_rw",
        "arguments": list(promised.arguments),
        "fair_bits": [list(pair) for pair in promised.fair_bits],
        "addresses": [("127.0.0.1", 1)] * 3,
    }
    clients: dict[str, Any] = {"terms": told, "certificates": certificates, "ports": (2, 3), "seconds": 1.0}
    with pytest.raises(HostUnfitError, match="No own certificate is there"):  # beyond that check
        work.prepare(**asked, clients=Sending(**clients))
    more = read_terms({**told, "epsilon": "2"}, "x").job(certificates)
    assert more.arguments != promised.arguments
    cases: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"arguments": list(more.arguments), "fair_bits": more.fair_bits}, {}),
        ({}, {"terms": {**told, "epsilon": "2"}}),
        ({}, {"terms": {**told, "delta": "1/1024"}}),
        ({}, {"terms": {**told, "epsilon": "2/2"}}),
        ({}, {"terms": {**told, "model": "sy-rep-ring"}}),
        ({}, {"terms": {**told, "input_form": "split"}}),
        ({}, {"terms": {**told, "neighboring_relation": "replace_one"}}),
        ({}, {"terms": {**told, "domain": {**told["domain"], "groups": ["a", "b", "c"]}}}),
        ({}, {"certificates": [*certificates, "third"]}),
        ({"fair_bits": promised.fair_bits[1:]}, {}),
        ({"protocol": "pi_rw_weights"}, {}),
    )
    for changes, others in cases:
        with pytest.raises(HostUnfitError, match="something else than clients are told"):
            work.prepare(**{**asked, **changes}, clients=Sending(**{**clients, **others}))

    more_said = Sending(**{**clients, "terms": {**told, "note": "only you can read this"}})
    with pytest.raises(ShareError, match="for a run that this version can describe: it has an unknown key"):
        work.prepare(**asked, clients=more_said)


def test_no_shares(work: Work) -> None:
    with pytest.raises(ShareError, match="holds no share files"):
        work.aggregate(0)


def test_uploads_that_are_not_taken_are_left_out(work: Work, tmp_path: Path) -> None:
    """A host judges its own; which of the sound ones stay out, follows from all hosts' lists."""
    own, domain = tmp_path / "host" / "shares", RecordDomain(("a", "b"), ("0", "1"), cap=Cap(2))
    none = np.array([], dtype=np.int64)
    records = ClientRecords(domain, np.array(["c"], dtype=object), none, none, none)
    taken, left, bad = (share(records, SLOTS, XOR, 3, tmp_path / "shares") for _ in range(3))
    shutil.copytree(tmp_path / "shares" / "party-0", own)
    (own / f"{bad}.share").write_text("")
    found = report_from_json(work.check_uploads(0, UploadPolicy(domain).to_json()), "host")
    assert set(found.sound) == {f"{taken}:1:0", f"{left}:1:0"} and found.unsound == {bad: UNREADABLE}
    other = replace(domain, cap=Cap(3))
    assert report_from_json(work.check_uploads(0, UploadPolicy(other).to_json()), "host").sound == {}
    work.check_uploads(0, ANY.to_json())
    head = work.aggregate(0, without=[f"{left}:1:0"])["head"]
    assert head.splitlines()[1] == f"{taken}:1:0"
    (own / "party-0.aggregate").write_text("")
    assert work.check_uploads(0, ANY.to_json()) is None  # parties agreed before


def test_everything_goes_with_the_connection(tmp_path: Path) -> None:
    """An agent that hears nothing more ends, and removes what it holds."""
    (tmp_path / "host").mkdir(mode=0o700)
    with subprocess.Popen(
        [sys.executable, "-m", "harness.hosts.agent", str(tmp_path / "host")],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.write(wire.encode({"do": "nonsense"}))
        agent.stdin.write(wire.encode({"do": "put_file", "name": "0a.share", "bytes": 5}) + BODY)
        agent.stdin.flush()
        said = [line for line in iter(agent.stdout.readline, b'{"ok": null}\n') if line.strip()]
        assert said[0] == wire.encode(wire.READY) and b"does not know the request 'nonsense'" in said[1]
        assert list((tmp_path / "host").glob(f"{PREFIX}*/received/0a.share"))
        agent.stdin.close()
        assert agent.wait(20) == 1
    assert list((tmp_path / "host").iterdir()) == []


REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"do": ["check"]},
    {"do": "check"},
    {"do": "listen", "port": True},
    {"do": "listen", "port": "1"},
    {"do": "reach", "others": [["127.0.0.1", 1.0, "x"]]},
    {"do": "setup", "party": 0, "renew": 1},
    {"do": "check_uploads", "party": 0, "rules": {}},
    {"do": "check_uploads", "party": 0, "rules": {"domain": None, "clients": True}},
    {"do": "pin", "party": 0, "certificates": {"mpyc": {"x": ""}}},
    {"do": "prepare", **PREPARE, "arguments": [], "addresses": [], "clients": {"terms": {}}},
    {"do": "prepare", **PREPARE, "protocol": "x", "arguments": [], "addresses": [["127.0.0.1", 1]] * 3},
    {"do": "prepare", **PREPARE, "party": 3, "arguments": [], "addresses": [["127.0.0.1", 1]] * 3},
    {"do": "start", "seconds": "1"},
    {"do": "kill", "more": 1},
)


def test_an_agent_answers_what_it_does_not_know(tmp_path: Path) -> None:
    """None of it ends the agent, or does anything."""
    (tmp_path / "host").mkdir(mode=0o700)
    asked = [*REQUESTS, {"do": "stop_listening"}, {"do": "bye"}]
    done = subprocess.run(
        [sys.executable, "-m", "harness.hosts.agent", str(tmp_path / "host")],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        input=b"".join(map(wire.encode, asked)),
        capture_output=True,
        check=True,
    )
    ready, *answers, last = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert ready == wire.READY and last == {"ok": None} and len(answers) == len(REQUESTS)
    for request, answer in zip(REQUESTS, answers, strict=True):
        assert answer["error"][0] in ("HostUnfitError", "RecordDomainError"), (request, answer)
    assert list((tmp_path / "host").iterdir()) == []


def test_cleaning_ends_other_agents_and_removes_what_is_left(work: Work, tmp_path: Path) -> None:
    host = tmp_path / "host"
    work.put_file("0a.share", 5)
    (own,) = host.glob(f"{PREFIX}*")
    left = host / f"{PREFIX}left"
    left.mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (left / "agent").write_text(f"{other.pid} {birth(other.pid)}")
        cleanup.place_of(host, "0" * 32).write_text('{"ended": "now"}')
        assert work.clean() == {"processes": 1, "directories": 1, "records": 1}
    assert {path.name for path in host.iterdir()} == {own.name, "results"}
    assert not list((host / "results").iterdir())


def test_a_number_that_another_process_has_got_is_left_alone(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "agent").write_text(f"{os.getpid()} 1")  # we did not begin with the kernel
    assert cleanup.clean(tmp_path, None) == {"processes": 0, "directories": 1, "records": 0}
