"""Flower as processes: its server holds no update of a client, and plain FedAvg's server holds each.

SuperLink and SuperNodes run, and hosts over ssh reveal the sums. The search that finds nothing in one server
finds everything in the other. Where Flower is not installed, nothing here runs.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.engines.registry import choose_model
from tests.conftest import PROJECT
from tests.support.command import succeed
from tests.support.flower_processes import NEEDED, Federation, federation, last_lines
from tests.support.memory import Form, forms_of, found_in, memory_of
from tests.support.running import until
from tests.support.servers import certify, serving
from tests.support.ssh import POLICY, Site, site

pytestmark = [
    pytest.mark.skipif(find_spec("flwr") is None, reason=NEEDED),
    pytest.mark.timeout(7200),  # of a test that hangs, on a machine that is busy, too
]
APP = PROJECT / "tests" / "fixtures" / "flower_planted"
MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
UNITS = 1 << 12
DECLARED = {"vectors": {"coordinates": 8, "clip": 1, "reveals": 3, "units": UNITS}}
START = 0.125
FAR = 15.0  # in a sum: beyond noise of a standard deviation of 1.3 with a probability below 1e-12
RUN_S = 3600.0  # for a step of a run that goes on: a busy machine starts many processes slowly


def changes_of(clients: int) -> list[npt.NDArray[np.float64]]:
    """Return what each client's training changes: random numbers of the grid, so small that none is clipped.

    They are odd numbers of units, as the text of others may have fewer digits than are looked for.
    """
    drawn = 2 * np.random.default_rng().integers(100, 700, size=(clients, 8)) + 1
    return [np.asarray(row / UNITS) for row in drawn]


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield hosts for a task of vectors, each with a server to which clients send."""
    place = tmp_path_factory.mktemp("site")
    certificate = certify(place)
    with ExitStack() as stack:
        made = stack.enter_context(site(place, MODEL.parties))
        (made.home / "policy.toml").write_text(POLICY.replace("2^-30", "1e-5").replace("2^-20", "1e-4"))
        succeed("hosts.setup", "--policy", "policy.toml", cwd=made.home)
        (made.home / "vectors.json").write_text(json.dumps(DECLARED))
        until_2999 = ("--until", "2999-01-01")
        for i in range(MODEL.parties):
            shares = made.directory(i) / "shares"
            shares.mkdir()
            address = stack.enter_context(serving(certificate, Intake(shares)))
            own = ("--directory", f"keys-{i}", "--sealing", "x25519", "--address", address)
            succeed("keys", *own, *until_2999, cwd=made.home)
        parties = ",".join(f"keys-{i}/party.json" for i in range(MODEL.parties))
        declared = ("--domain", "vectors.json", "--for-tasks", "sums", "--privacy-unit", "client")
        succeed(
            "task", "task.json", "--parties", parties, "--least-uploads", "1", "--security", MODEL.name,
            *until_2999, *declared, "--epsilon", "8", "--delta", "1e-5", cwd=made.home,
        )  # fmt: skip
        for i in range(MODEL.parties):
            shutil.copy(made.home / "task.json", made.directory(i))
            shutil.move(made.home / f"keys-{i}", made.directory(i) / "sealing")
        yield made


class Intake:
    """A party's server, which stores what is put."""

    def __init__(self, shares: Path) -> None:
        self.shares = shares

    def __call__(self, path: str, body: bytes) -> int:
        """Store an envelope by its name."""
        (self.shares / Path(path).name).write_bytes(body)
        return 201


def nodes(
    changes: list[npt.NDArray[np.float64]], place: Path, task: Path | None
) -> list[Mapping[str, str | int]]:
    """Return the configurations of nodes, whose last fails in training."""
    configured: list[Mapping[str, str | int]] = []
    for number, change in enumerate(changes):
        file = place / f"change-{number}.npy"
        np.save(file, change)
        node: dict[str, str | int] = {"change": str(file), "fails": int(number == len(changes) - 1)}
        if task is not None:
            node |= {"fairshares-task": str(task), "fairshares-directory": str(place / f"sent-{number}")}
        configured.append(node)
    return configured


def wanted(changes: list[npt.NDArray[np.float64]]) -> dict[str, Form]:
    """Return what to look for: forms of changes and of trained models, of the first client and the last."""
    forms: dict[str, Form] = {}
    for name, change in (("first", changes[0]), ("last", changes[-1])):
        forms |= forms_of(f"the change of the {name}", change, UNITS)
        for part, model in (("begin", START + change[:4]), ("end", START + change[4:])):
            forms |= forms_of(f"the {part} of the model of the {name}", model, UNITS)
        forms[f"a metric of the {name}"] = (np.array(np.linalg.norm(change)).tobytes(),)
    return forms


def found_while_it_runs(
    made: Federation, run: "Popen[bytes]", hold: Path, rounds: int, forms: Mapping[str, Form]
) -> set[str]:
    """Return what is found in the server's processes, whenever they wait, in messages and in logs."""
    found: set[str] = set()
    for number in range(1, rounds + 1):
        for state in ("answered", "averaged"):
            file = hold / f"{state}-{number}"
            until(lambda file=file: file.exists() or run.poll() is not None, RUN_S)  # type: ignore[misc]
            assert file.exists(), last_lines(made)
            searched = set()
            for process in made.processes_of("server"):
                program = program_of(process)
                searched.add(program)
                found |= {f"{program}: {form}" for form in found_in(memory_of(process), forms)}
            assert searched >= {"flower-superlink", "flower-superexec", "flwr-serverapp"}
            file.with_suffix(".done").touch()
    assert run.wait(timeout=RUN_S) == 0, last_lines(made)
    found |= {f"messages: {form}" for form in found_in([made.messages.read_bytes()], forms)}
    logs = [log.read_bytes() for log in made.logs]
    return found | {f"logs: {form}" for form in found_in(logs, forms)}


def program_of(process: int) -> str:
    """Return the name of the program that a process runs."""
    arguments = (Path("/proc") / str(process) / "cmdline").read_bytes().split(b"\0")
    return Path(os.fsdecode(arguments[1])).name if len(arguments) > 1 else ""


def model_of(made: Federation) -> npt.NDArray[np.float64]:
    """Return the model that the server has printed."""
    text = (made.place / "run.log").read_text()
    (said,) = re.findall(r"the model is ([-\d. ]+)", text)
    return np.array([float(value) for value in said.split()])


@pytest.mark.parametrize("clients", [4, 20])
def test_flower_s_server_holds_no_update(
    clients: int, hosts: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two rounds the model moves by the noisy mean of all but the client that fails.

    Each client is a SuperNode, a process with the processes that it starts.
    """
    changes = changes_of(clients)
    monkeypatch.setenv("SSL_CERT_FILE", str(hosts.home.parent / "server.pem"))
    configured = nodes(changes, tmp_path, hosts.home / "task.json")
    with federation(tmp_path, configured, [APP]) as made:
        run = made.run(APP, sums=str(hosts.home), hold=str(tmp_path), rounds=2, clients=clients)
        found = found_while_it_runs(made, run, tmp_path, 2, wanted(changes))
        moved = model_of(made) - START
    assert found == set()
    expected = 2 * np.sum(changes[:-1], axis=0) / clients
    assert np.abs(moved - expected).max() < 2 * FAR / clients
    for i in range(MODEL.parties):
        assert len(list((hosts.directory(i) / "shares").glob("*.share"))) == 2 * (clients - 1)


def test_plain_fedavg_s_server_holds_every_update(tmp_path: Path) -> None:
    """The same search finds floats of both sizes, integers and text, in memory, messages and logs."""
    changes = changes_of(3)
    with federation(tmp_path, nodes(changes, tmp_path, None), [APP]) as made:
        run = made.run(APP, hold=str(tmp_path), rounds=1, clients=3)
        found = found_while_it_runs(made, run, tmp_path, 1, wanted(changes))
    text = {f"the change of the last as {form}" for form in ("text", "integers in text")}
    arrays = {
        "the begin of the model of the first as float64",
        "the end of the model of the first as float32",
        "the change of the first as integers",
        "a metric of the first",
    }
    missing = {
        f"{where}: {form}" for where in ("flwr-serverapp", "messages") for form in arrays | text
    } - found
    missing |= {f"logs: {form}" for form in text} - found
    assert missing == set()
