"""`bench.run` with programs of a user's own: on any machine of MP-SPDZ, with inputs, and with mistakes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from benchmarks.measure import given_files
from benchmarks.measure.cell import Place
from benchmarks.measure.machines import MACHINES, Arithmetic
from benchmarks.measure.samples import FAILED, OK, SKIPPED, Level, Sample, load
from benchmarks.suites import Planned
from fairshares.harness.engines import engine
from fairshares.harness.engines.mpspdz import compiler
from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from tests.support.command import CODES, call, processes_below, read_json, succeed

# It prints its inputs' product and order, and times both apart.
PROGRAM = """
a, b = (sint.get_input_from(i) for i in (0, 1))
start_timer(1)
product = a * b
stop_timer(1)
start_timer(20)
less = a < b
stop_timer(20)
print_ln("product %s, less %s", product.reveal(), less.reveal())
"""
PHASES = {"online", "offline", "timer_1", "timer_20"}


def home() -> Path | None:
    found = find_installation()
    return found.home if isinstance(found, Installation) else None


HOME = home()
BUILT = [
    name
    for name, kind in MACHINES.items()
    if HOME is not None and (HOME / f"{name}-party.x").exists() and kind.beside is None
]
needs_shamir = pytest.mark.skipif("shamir" not in BUILT, reason="needs MP-SPDZ with shamir-party.x")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "my.mpc").write_text(PROGRAM)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "Input-P0-0").write_text("6\n")
    (tmp_path / "given" / "Input-P1-0").write_text("-7\n")
    return tmp_path


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory for a run, of which nothing is left afterwards: no file, and no process."""
    place = tmp_path / "scratch"
    place.mkdir()
    yield place
    assert list(place.iterdir()) == [] and processes_below(place) == {}


def measured(scratch: Path, timeout_s: float = 100.0, **cell: Level) -> Sample:
    """Measure a program beside the scratch directory once."""
    program: dict[str, Level] = {"program": "my.mpc", **cell}
    place = Place(scratch.parent, inputs=scratch.parent)
    return place.measure("program", Planned(program, 1, timeout_s), 0, scratch)


@pytest.mark.parametrize("machine", BUILT)
def test_a_program_runs_on_every_machine_that_is_built(machine: str, directory: Path, scratch: Path) -> None:
    sample = measured(scratch, machine=machine, inputs="given")
    assert (sample.status, sample.reason) == (OK, None)
    assert "product -42, less 0\n" in sample.printed[0].text
    parties = MACHINES[machine].fewest
    assert len(sample.sent_bytes) == len(sample.printed) == parties
    assert set(sample.phases) >= {"timer_1", "timer_20"}
    assert all(len(costs) == parties for costs in sample.phases.values())
    assert sample.compile_options[:2] == ("-E", machine)
    if MACHINES[machine].arithmetic in (Arithmetic.RING, Arithmetic.FIELD):
        assert set(sample.phases) == PHASES


@needs_shamir
def test_options_of_a_machine_are_factors_of_a_table(directory: Path) -> None:
    command = "my.mpc --machine shamir,replicated-ring-party.x --parties 3,4 --batch-size 100 --inputs given"
    shown = succeed("bench.run", *command.split(), "--repetitions", "1", "--out", "found", cwd=directory)
    assert "timer 20" in shown
    samples = {
        (sample.cell["machine"], sample.cell["parties"]): sample
        for sample in load(directory / "found")
        if not sample.warm_up
    }
    skipped = samples["replicated-ring", 4]
    assert (skipped.status, skipped.reason) == (SKIPPED, "replicated-ring takes 3 parties here, not 4.")
    for machine, parties in (("shamir", 3), ("shamir", 4), ("replicated-ring", 3)):
        sample = samples[machine, parties]
        assert sample.status == OK and len(sample.sent_bytes) == parties
        assert set(sample.phases) == PHASES and sample.cell["batch_size"] == 100
    succeed("bench.export", "found", "--out", "tables", cwd=directory)
    cells = pd.read_csv(directory / "tables" / "cells.csv")
    of_shamir = cells[cells["cell.machine"] == "shamir"]
    assert of_shamir["timer_1.rounds"].tolist() == [1, 1]
    assert (of_shamir["timer_20.seconds.median"] > 0).all() and (of_shamir["online.sent_bytes"] > 0).all()
    runs = pd.read_csv(directory / "tables" / "runs.csv")
    assert "product -42, less 0" in runs["printed.0.text"].dropna().iloc[0]
    assert runs["phases.timer_20.1.rounds"].dropna().gt(1).all()
    # The inputs are in the results, so that these can go on without them.
    shutil.rmtree(directory / "given")
    hashes = read_json(directory / "found" / "about.json")["sha256"]
    assert {"my.mpc", "inputs/given/Input-P0-0", "inputs/given/Input-P1-0"} == set(hashes)
    succeed("bench.run", "--resume", "found", "--repetitions", "2", cwd=directory)


@needs_shamir
def test_threads_and_parties_stand_in_arguments(directory: Path, scratch: Path) -> None:
    (directory / "my.mpc").write_text("print_ln('given %s', program.args[1:])\n")
    sample = measured(scratch, machine="shamir", parties=4, threads=3, arguments="x {threads} {parties}")
    assert (sample.printed[3].text, sample.printed[3].size) == ("given [x, 3, 4]\n", 16)


@needs_shamir
def test_a_party_finds_its_own_inputs_alone(directory: Path, scratch: Path) -> None:
    """A program may read files of its party's directory; another party's inputs are not there."""
    (directory / "given" / "Input-P1-0").rename(directory / "given" / "Input-P2-0")
    sample = measured(scratch, machine="shamir", inputs="given")
    assert sample.status == FAILED
    assert "not enough inputs in given/Input-P1-0" in str(sample.reason)


@needs_shamir
def test_no_party_has_the_file_of_another(
    directory: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []

    def copy(source: Path, target: Path) -> None:
        copied.append((source.name, target.parent.parent.name))
        shutil.copy(source, target)

    monkeypatch.setattr(given_files, "shutil", SimpleNamespace(copyfile=copy))
    assert measured(scratch, machine="shamir", inputs="given").status == OK
    assert sorted(copied) == [("Input-P0-0", "party-0"), ("Input-P1-0", "party-1")]


# A client of the program takes part by MP-SPDZ's own class, whose fields need an inverse of gmpy2 alone.
WITH_A_CLIENT = """
listen_for_clients(15000)
number = accept_client_connection(15000)
a, b = sint.receive_from_client(2, number)
sint.reveal_to_clients([number], [a + b])
print_ln("less %s", (a < b).reveal())
"""
CLIENT = """#!/usr/bin/env python3
import sys
import types
sys.path.insert(0, "{home}/ExternalIO")
sys.modules["gmpy2"] = types.SimpleNamespace(invert=lambda number, modulus: pow(number, -1, modulus))
from client import Client
client = Client(["127.0.0.1"] * int(sys.argv[1]), int(sys.argv[2]), 0)
client.send_private_inputs([20, 22])
total = client.receive_outputs(1)
assert total == [{expected}], total
"""


@pytest.fixture
def with_client(directory: Path) -> Path:
    """Return the file of a program's client, whose sum is as expected; it is in the directory of inputs."""
    (directory / "my.mpc").write_text(WITH_A_CLIENT)
    client = directory / "given" / "Client-C0-15000"
    client.write_text(CLIENT.format(home=HOME, expected=42))
    client.chmod(0o700)
    return client


@needs_shamir
@pytest.mark.parametrize("machine", ["shamir", "replicated-ring"])
def test_clients_of_a_program_connect_to_its_parties(machine: str, with_client: Path, scratch: Path) -> None:
    """In a field with triples as in an active model, and in a ring."""
    sample = measured(scratch, machine=machine, inputs=with_client.parent.name)
    assert (sample.status, sample.reason) == (OK, None)
    assert sample.printed[0].text == "less 1\n"
    assert processes_below(with_client.parent) == {}


@needs_shamir
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("#!/bin/sh\necho no such bank >&2\nexit 3\n", "Client 0 ended with exit code 3: no such bank"),
        (CLIENT.format(home=HOME, expected=43), "Client 0 ended with exit code 1: AssertionError: [42]"),
    ],
    ids=["before it connects", "with what it got"],
)
def test_a_client_that_fails_fails_the_run(command: str, said: str, with_client: Path, scratch: Path) -> None:
    with_client.write_text(command)
    sample = measured(scratch, machine="shamir", inputs="given")
    assert sample.status == FAILED and said in str(sample.reason)


@needs_shamir
def test_clients_end_with_the_run(with_client: Path, scratch: Path) -> None:
    """Those that the parties do not know of, too, such as a client's own child."""
    with_client.write_text(
        "#!/bin/sh\necho $$ > pids\nsleep 600 & echo $! >> pids\ncp pids ../../../../\nwait\n"
    )
    sample = measured(scratch, machine="shamir", timeout_s=5.0, inputs="given")
    assert sample.status == FAILED and "had not finished after 5 s" in str(sample.reason)
    numbers = (scratch.parent / "pids").read_text().split()
    assert len(numbers) == 2 and not any(map(is_running, numbers))


def is_running(number: str) -> bool:
    """Return whether a process runs, and is no zombie."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@needs_shamir
def test_a_client_that_cannot_be_executed_is_refused_before_a_directory_is_made(
    with_client: Path, directory: Path
) -> None:
    with_client.chmod(0o600)
    options = ("--machine", "shamir", "--inputs", "given", "--out", "found")
    done = call("bench.run", "my.mpc", *options, cwd=directory)
    assert done.returncode == 1
    assert "given/Client-C0-15000 cannot be executed; run chmod +x" in " ".join(done.stderr.split())
    assert not (directory / "found").exists()


MISTAKES = {
    "asks for inputs": (
        "print_ln('%s', sint.get_input_from(0).reveal())",
        "not enough inputs in Player-Data",
    ),
    "crashes": ("crash()", "Crash requested by program"),
    "never ends": (
        "@do_while\ndef _():\n    return sint(3).reveal() == 3\n",
        "Parties 0, 1, 2 had not finished after 6 s; all were stopped",
    ),
    "is compiled without an end": ("while True:\n    pass\n", "Compiling my took more than 6 s and was stop"),
    "prints a gigabyte": (
        f"@for_range(10**6)\ndef _(i):\n    print_ln('{'x' * 1000}')\n",
        "It printed more than 0 MiB, and the rest was not read.",
    ),
    "prints a gigabyte as it is compiled": (
        "while True:\n    print('x' * 10**5)\n",
        "Compiling my printed more than 0 MiB and was stopped.",
    ),
    "is of rings alone": (
        "\nprogram.use_split(3)\nprint_ln('%s', (sint(1) < 2).reveal())",
        "MP-SPDZ's compiler refused my.mpc, at line 2: splitting only supported for rings",
    ),
    "has another arithmetic": (
        "print_ln('%s', sint.get_input_from(0).reveal())\n",
        "computes modulo a prime",
    ),
}


@needs_shamir
@pytest.mark.parametrize(("program", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_said_in_one_sentence(
    program: str, said: str, directory: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "my.mpc").write_text(program)
    monkeypatch.setattr(engine, "MOST_LOG_BYTES", 200_000)  # in place of 64 MiB, which take a minute
    monkeypatch.setattr(compiler, "_MOST_OUTPUT", 200_000)
    cell: dict[str, Level] = {"machine": "shamir"}
    if "computes" in said:
        cell["compile_options"] = "-R 64"
    sample = measured(scratch, timeout_s=6.0 if "6 s" in said else 100.0, **cell)
    assert sample.status in (FAILED, SKIPPED) and said in str(sample.reason)
    assert "\n" not in str(sample.reason) and "Traceback" not in str(sample.reason)


@needs_shamir
def test_a_program_that_needs_a_field_is_told_by_its_machine(directory: Path, scratch: Path) -> None:
    (directory / "my.mpc").write_text("print_ln('%s', sint(4).reveal().legendre())\n")
    sample = measured(scratch, machine="replicated-ring")
    assert sample.status == FAILED and str(sample.reason).endswith("(LEGENDREC): no prime modulus")


def installed(machine: Path) -> Path:
    """Return a copy of MP-SPDZ without its machines, by links, with a place for one of them."""
    assert HOME is not None
    machine.parent.mkdir()
    for part in HOME.iterdir():
        if not part.name.endswith(".x"):
            (machine.parent / part.name).symlink_to(part)
    return machine


@needs_shamir
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("absent", "build it there by make shamir-party.x"),
        ("not executable", "lacks its permission to be executed; run chmod +x"),
        ("without its libraries", "libSPDZ.so => not found. Install what it was built with"),
    ],
)
def test_a_machine_that_cannot_start_is_told_before_anything_runs(
    fault: str, said: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HOME is not None
    machine = installed(directory / "MP-SPDZ" / "shamir-party.x")
    if fault != "absent":
        shutil.copy(HOME / "shamir-party.x", machine)
    if fault == "not executable":
        machine.chmod(0o600)
    if fault == "without its libraries":
        monkeypatch.setattr(compiler, "linker_says", lambda _: "\tlibSPDZ.so => not found\n")
    monkeypatch.setenv("MP_SPDZ_HOME", str(machine.parent))
    find_installation.cache_clear()
    try:
        done = call("bench.run", "my.mpc", "--machine", "shamir", "--out", "found", cwd=directory)
    finally:
        find_installation.cache_clear()
    assert done.returncode in CODES and done.stderr.count("Error: Nothing was run.") == 1
    assert said in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert load(directory / "found")[0].status == SKIPPED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--machine mascott", "(did you mean mascot?)"),
        ("--parties 3", "--parties is for a machine of MP-SPDZ; name one by --machine, or leave it out."),
        ("--machine shamir --bucket-size 9", "a whole number from 3 to 5"),
        ("--machine shamir --threads 2", "have {threads} in arguments, or leave out threads."),
        ("--machine shamir --inputs none", "There is no directory none; name one with files as Input-P0-0"),
        ("--machine shamir --inputs empty", "empty has no file of inputs; name them as MP-SPDZ does"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_a_directory_is_made(
    options: str, said: str, directory: Path
) -> None:
    (directory / "empty").mkdir()
    done = call("bench.run", "my.mpc", *options.split(), "--out", "found", cwd=directory)
    assert done.returncode in CODES and said in " ".join(done.stderr.split())
    assert done.stderr.count("Error: ") == 1 and not (directory / "found").exists()


LATER = {
    "about.json": (
        '"quick": true',
        '"quick": true, "later": 1',
        "is not the about.json of a run: it has an unknown key 'later'",
    ),
    "experiment.toml": ("title = ", "later = 1\ntitle = ", "unknown key 'later'"),
    "samples.jsonl": ('"schema": 1', '"schema": 2', "it has schema 2; this version reads schema 1"),
}


@pytest.mark.parametrize("name", LATER)
def test_results_of_another_version_are_refused_in_a_sentence(name: str, directory: Path) -> None:
    done = call("bench.run", "noise", "--quick", "--security", "mpyc", "--out", "found", cwd=directory)
    assert done.returncode == 0, done.stderr
    text, later, said = LATER[name]
    path = directory / "found" / name
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, later))
    before = {file.name: file.read_bytes() for file in (directory / "found").glob("*.*")}
    done = call("bench.run", "--resume", "found", cwd=directory)
    assert done.returncode in CODES and done.stderr.count("Error: ") == 1 and "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.split())
    assert {file.name: file.read_bytes() for file in (directory / "found").glob("*.*")} == before


def test_about_without_a_choice_is_no_results(directory: Path) -> None:
    succeed("bench.run", "noise", "--quick", "--security", "mpyc", "--out", "found", cwd=directory)
    about = read_json(directory / "found" / "about.json")
    del about["chosen"]
    (directory / "found" / "about.json").write_text(json.dumps(about))
    done = call("bench.run", "--resume", "found", cwd=directory)
    assert done.returncode in CODES and done.stderr.count("Error: ") == 1 and "Traceback" not in done.stderr
