"""Whoever reaches a gateway, invited or not, keeps nobody else from being counted."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.clients.session import Server
from harness.engines.base import Job
from tests.commands.test_clients import SENT, are_counts, job, needs_proc, nothing_is_left, run

FILES = 256  # that a gateway may have open, less than what attackers hold at a time


@pytest.fixture
def few_files() -> Iterator[None]:
    """Have all programs of a run open few files only, but not the attackers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def among(one: Job, attacks: Sequence[str], work: Path) -> Job:
    """Return the job with attackers that begin before its clients, the last of which are theirs if invited."""
    assert one.clients is not None
    begin = one.clients.begin
    senders, hostile = begin.args[0][: len(SENT)], begin.args[0][len(SENT) :]  # type: ignore[attr-defined]
    certificates = [str(sender.certificate.resolve()) for sender in hostile or len(attacks) * senders]

    @contextmanager
    def attacked(servers: Sequence[Server]) -> Iterator[None]:
        told = {
            "servers": [asdict(server) for server in servers],
            "attacks": attacks,
            "certificates": certificates[: len(attacks)],
        }
        (work / "attacks.json").write_text(json.dumps(told))
        command = [sys.executable, "-m", "tests.support.hostile_clients", str(work / "attacks.json")]
        limit = ["prlimit", "--nofile=4096:"]
        with subprocess.Popen([*limit, *command], stdout=subprocess.PIPE) as attacker:
            try:
                assert attacker.stdout and attacker.stdout.readline() == b"ready\n"
                with begin.func(senders, servers, **begin.keywords):  # type: ignore[attr-defined]
                    yield
            finally:
                attacker.kill()

    return replace(one, clients=replace(one.clients, begin=attacked))


STRANGERS = ("idle", "slow", "garbage", "stranger")
INVITED = ("many", "huge", "drip", "disorder", "early")


@needs_proc
@pytest.mark.mpspdz("ring")
def test_strangers_keep_no_client_from_being_counted(tmp_path: Path, few_files: None) -> None:
    one = among(job(tmp_path / "clients"), STRANGERS, tmp_path)
    result = run(one, tmp_path / "parties")
    assert are_counts(result.outputs["counts"]) and result.left_out == {}
    assert nothing_is_left(tmp_path)


@needs_proc
@pytest.mark.mpspdz("ring")
def test_invited_attackers_keep_nobody_but_themselves_from_being_counted(
    tmp_path: Path, few_files: None
) -> None:
    one = among(job(tmp_path / "clients", more=len(INVITED)), INVITED, tmp_path)
    result = run(one, tmp_path / "parties", timeout_s=120.0)
    assert are_counts(result.outputs["counts"]) and sum(result.left_out.values()) == len(INVITED)
    assert nothing_is_left(tmp_path)
