"""Policies of hosts, and what a coordinator sends to an agent, line by line."""

import io
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairshares.harness.errors import FairSharesError, HostUnfitError, PolicyError
from fairshares.harness.hosts import wire
from fairshares.harness.hosts.agent import Agent, Work
from fairshares.harness.hosts.decision import Benchmark, Release, decide
from fairshares.harness.hosts.frames import ErrorFrame
from fairshares.harness.hosts.messages import ReceivedRequest
from fairshares.harness.hosts.policy import POLICY_FILE, checked_policy, first_policy
from tests.fuzz.mutate import Target

_PLACE = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
_HOST = _PLACE / "host"  # without keys, uploads or shares, so that no request gets as far as a party


def _read_policy(data: bytes) -> None:
    """Read a policy as `hosts.policy` and an agent do, and decide by it."""
    path = _PLACE / "read.toml"
    path.write_bytes(data)
    policy = checked_policy(path, POLICY_FILE)
    json.dumps(policy.to_json())
    for population in ("loans", None):
        decide(policy.host_rules, "alice", Release("weights", "ring", "record", population))
    decide(policy.host_rules, "alice", Benchmark("mpyc"))


def _read_lines(data: bytes) -> None:
    """Answer lines as an agent does, the first of a new connection.

    Raises ValueError where the connection would end, or the error by which the first refused request is
    answered.
    """
    stream, first = io.BytesIO(data), None
    with ExitStack() as stack:
        work = Work(_HOST, stack)
        agent = Agent(io.BytesIO(), io.BytesIO(), work)
        while (line := wire.read_line(stream, lambda: None, lambda: work.longest)) is not None:
            received = wire.decode(line)
            if received is None:
                continue
            request = ReceivedRequest.of_line(received.fields, received.size)
            if request.name in _REACHING_OUT:
                continue
            answer = agent._answer(request)
            wire.encode(answer)
            if isinstance(answer, ErrorFrame) and first is None:
                first = answer.text
    if first is not None:
        if first.startswith("It failed at the request"):
            raise AssertionError(first)
        raise HostUnfitError(first)


# What would end other processes, or connect to wherever a mutation says.
_REACHING_OUT = ("clean", "reach", "time_links", "check", "listen")


def _line(request: str, **details: Any) -> bytes:
    return wire.encode({"do": request, **details})


def _lines() -> list[bytes]:
    _HOST.mkdir(mode=0o700)
    (_HOST / POLICY_FILE).write_text("benchmark = true\n" + first_policy(["mpyc"]))
    (_HOST / POLICY_FILE).chmod(0o600)
    asked = {"task": "weights", "epsilon": "1", "security": "mpyc", "population": "loans"}
    domain = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 10}
    noise = {"security": "mpyc", "noise": {"exact": ["1", "1/1099511627776"], "samples": 3}}
    release = {"security": "mpyc", "asked": asked, "federation": {"clients": 7, "records": 23}}
    told = {"lister": 1, "signed": {"said": "", "signature": "", "certificate": ""}, "at": 0, "piece": ""}
    prepare = _line("prepare", run="0" * 32, party=0, addresses=[["127.0.0.1", 0]] * 3)
    return [
        b"\n" + _line("collect") + _line("forget", run="0" * 32),
        _line("propose", asked=asked) + _line("check_uploads", party=0) + _line("aggregate", party=0),
        _line("propose", asked=asked) + _line("take_list", **told),
        _line("preprocess", asked=asked, domain=domain) + prepare,
        _line("benchmark", party=0, trial=noise) + _line("kill") + _line("state"),
        _line("benchmark", party=0, trial=release) + _line("certificate", seconds=1.5),
        _line("agree", nonces=["0" * 32] * 3, started="2027-01-01T00:00:00+00:00") + _line("go", agreed={}),
    ]


_POLICY = b"""port = 12000
client_port = 12100
coordinators = ["alice"]
benchmark = true
benchmark_security = ["ring"]
attempts = 3

[[population]]
name = "loans"
epsilon = 4
delta = "2^-30"
epsilon_per_run = "1/3"
delta_per_run = 1e-12
tasks = ["weights", "gap"]
security = ["ring"]
unit = "record"
relation = "add_or_remove_one"
chains = true
upload_tasks = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
"""
TARGETS = [
    Target("policy", _read_policy, [_POLICY, first_policy(["ring", "mpyc"]).encode()], (PolicyError,)),
    Target("agent-lines", _read_lines, _lines(), (ValueError, FairSharesError)),
]
