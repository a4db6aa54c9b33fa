"""Cells over hosts: what they measure, and what befalls hosts meanwhile."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.measure.cell import HERE, over_hosts
from benchmarks.measure.samples import FAILED, OK, SKIPPED, Level, Sample, load
from benchmarks.suites import Planned
from fairshares.harness.hosts.fleet import set_up
from fairshares.harness.hosts.host_log import LOG_FILE
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.security_models import MODELS, SecurityModel
from tests.support.command import CODES, call, files_below, finish, processes_below, start, succeed
from tests.support.midway import ended, have_party_0_stop, parent, party_on, wait_until_midway
from tests.support.running import model_parameters, until
from tests.support.ssh import Site, copy_of_project, site

WORD = "benchmark = true\n"
REFUSING = f"benchmark_security = {json.dumps([*MODELS])}\npopulation = []\n"
CELL: dict[str, Level] = {
    "protocol": "pi_rw",
    "variant": "default",
    "input_path": "shares",
    "security": "mpyc",
    "shape": "",
    "clients": 40,
    "records": 90,
    "groups": 2,
    "labels": 2,
    "epsilon": "1",
    "network": "none",
}
NOISE: dict[str, Level] = {
    "protocol": "pi_lap",
    "variant": "default",
    "samples": 4,
    "security": "mpyc",
    "epsilon": "1",
    "network": "none",
}
PRINTED: dict[str, Level] = {
    "protocol": "pi_rw",
    "variant": "literal",
    "security": "ring",
    "shape": "",
    "clients": 3,
    "records": 9,
    "epsilon": "1",
    "network": "none",
}
Measure = Callable[..., Sample]
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")


@contextmanager
def measuring(made: Site) -> Iterator[Measure]:
    """Yield what measures a cell over hosts, to which connections stay open meanwhile."""
    with over_hosts(made.home / "hosts.toml", made.home) as place:

        def measure(cell: dict[str, Level] = CELL, timeout_s: float = 60.0, **changes: Level) -> Sample:
            planned = Planned({**cell, **changes}, 1, timeout_s)
            return place.measure("some", planned, 0, made.home)

        yield measure


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield four hosts that are set up, as many as a model has parties at most."""
    with site(tmp_path_factory.mktemp("site"), 4) as made:
        set_up(made.hosts, False, WORD + REFUSING, lambda _: None, [])
        yield made


@pytest.fixture
def hosts(four: Site) -> Iterator[Site]:
    """Yield the hosts; afterwards nothing runs, and nothing was charged."""
    yield four
    four.write()
    shutil.rmtree(four.home / "results", ignore_errors=True)
    for host in four.hosts:
        until(lambda: not processes_below(Path(host.directory)))  # noqa: B023
        assert files_below(Path(host.directory) / "results") == set()
        left = {path.name for path in Path(host.directory).iterdir()} - {"results"}
        assert left - {TURN, LOG_FILE} == {"keys", "policy.toml"}  # no run's files, and no ledger


@contextmanager
def refusing(made: Site, party: int) -> Iterator[str]:
    """Have a host's owner take the word back meanwhile; yield what begins a run's reason then."""
    policy = made.directory(party) / "policy.toml"
    allowing = policy.read_text()
    policy.write_text(allowing.replace(WORD, ""))
    yield f"Host 127.0.0.1 (party {party}): Its policy allows no benchmark runs"
    policy.write_text(allowing)


@pytest.mark.parametrize("model", model_parameters())
def test_a_cell_over_hosts_is_the_cell_that_it_is_here(hosts: Site, model: SecurityModel) -> None:
    """Also where clients send, whom this machine plays."""
    with measuring(hosts) as measure:
        measured = [measure(cell, security=model.name) for cell in (CELL, NOISE, CELL)]
        if model.name == "ring":
            measured.append(measure(security="ring", variant="product", input_path="clients"))
            assert min(measured[-1].client_sent_bytes or [0]) > 0
    assert [sample.status for sample in measured] == [OK] * len(measured), measured[-1].reason
    for sample in measured[:3]:
        assert HERE.identity(sample.cell) == (sample.program_hash, sample.engine_version)
        assert len(sample.hosts) == len(sample.sent_bytes) == model.parties and sample.network is not None
        pairs = {tuple(sorted(link["parties"])) for link in sample.network["links"]}
        assert pairs == {(a, b) for b in range(model.parties) for a in range(b)}
        assert sample.network["measured_rtt_s"] > 0
        assert all(host["memory_bytes"] > 0 and host["environment"]["cores"] for host in sample.hosts)


@pytest.mark.parametrize("model", model_parameters(models=[one for one in MODELS.values() if one.replicated]))
def test_replicated_shares_over_hosts_are_what_they_are_here(hosts: Site, model: SecurityModel) -> None:
    """Of sums and of products: each host makes the shares itself that its party holds."""
    with measuring(hosts) as measure:
        for variant in ("default", "product"):
            sample = measure(security=model.name, variant=variant, input_path="replicated")
            assert (sample.status, sample.reason) == (OK, None)
            here = HERE.identity(sample.cell)
            assert here is not None and here[0] == sample.program_hash
        refused = measure(input_path="replicated")
    assert refused.status == SKIPPED and "needs MP-SPDZ" in str(refused.reason)


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["rep4-ring"]]))
def test_a_protocol_as_printed_runs_at_hosts_as_it_does_here(hosts: Site, model: SecurityModel) -> None:
    """Each host compiles it of its own clone, and charges, signs and keeps nothing."""
    with measuring(hosts) as measure:
        sample = measure(PRINTED, security=model.name)
        assert (sample.status, sample.reason) == (OK, None)
        assert HERE.identity(sample.cell) == (sample.program_hash, sample.engine_version)
        assert len(sample.hosts) == len(sample.sent_bytes) == model.parties
        refused = measure(PRINTED, security="mpyc")
    assert refused.status == SKIPPED and "only MP-SPDZ has" in str(refused.reason)


def test_what_hosts_do_not_run_is_skipped(tmp_path: Path) -> None:
    described = 'address = "x"\ndirectory = "/x"\nproject = "/x"\nport = 1\n'
    (tmp_path / "hosts.toml").write_text("".join(f"[[host]]\nparty = {i}\n{described}" for i in range(2)))
    with over_hosts(tmp_path / "hosts.toml") as place:
        assert place.why_not(Planned(CELL, 1, 1.0)) == "mpyc takes 3 hosts; there are 2."
        delayed = Planned({**CELL, "security": "semi2k", "network": "lan"}, 1, 1.0)
        assert str(place.why_not(delayed)).startswith("No network is emulated between hosts")
        assert place.why_not(Planned({**CELL, "security": "semi2k"}, 1, 1.0, "It is long.")) == "It is long."
        own = Planned({"program": "mine.mpc", "security": "mpyc"}, 1, 1.0)
        assert str(place.why_not(own)) == "mpyc takes 3 hosts; there are 2."


@contextmanager
def allowing(made: Site, reason: str | None) -> Iterator[None]:
    """Have all owners allow meanwhile the program that a refusal names."""
    found = re.search('benchmark_programs = \\["[0-9a-f]{64}"\\]', str(reason))
    assert found is not None, reason
    policies = [made.directory(party) / "policy.toml" for party in range(4)]
    before = [policy.read_text() for policy in policies]
    for policy, text in zip(policies, before, strict=True):
        policy.write_text(f"{found[0]}\n{text}")
    yield
    for policy, text in zip(policies, before, strict=True):
        policy.write_text(text)


def own_program(made: Site, name: str, text: str, **more: Level) -> dict[str, Level]:
    """Return the cell of a program, whose text is in the coordinator's directory."""
    (made.home / f"{name}.mpc").write_text(text)
    return {"program": f"{name}.mpc", "security": "ring", "network": "none", **more}


SQUARE = """
x = sint.get_input_from(0)
y = sint.get_input_from(2)
print_ln("square %s", (x * y).reveal())
@for_range_multithread(2, 1, 4)
def _(i):
    print_ln("turn %s", i)
"""


@pytest.mark.mpspdz("ring")
def test_a_program_of_ones_own_runs_where_all_owners_allow_its_digest(hosts: Site) -> None:
    """With the digest that the refusal names, and no other options."""
    cell = own_program(hosts, "square", SQUARE, inputs=1)
    with measuring(hosts) as measure:
        refused = measure(cell)
        assert refused.status == FAILED and "Its policy does not allow this program" in str(refused.reason)
        with allowing(hosts, refused.reason):
            sample = measure(cell)
            assert (sample.status, sample.reason) == (OK, None)
            assert f'["{sample.program_hash}"]' in str(refused.reason)
            assert len(sample.hosts) == len(sample.sent_bytes) == 3 and sample.times["compile_s"] > 0
            assert measure(cell, inputs=0).status == FAILED
            assert "Its policy does not allow" in str(measure(cell, compile_options="-R 64").reason)
            assert "Its policy does not allow" in str(measure(cell, security="rep4-ring").reason)
            assert measure(cell).status == OK


LONG = "x" * 200
LINE = f'    print_ln("line %s of many, which nobody reads {LONG}", i)\n'
# Programs, and what a cell's reason says of them.
BAD_PROGRAMS = {
    "prints": (f"@for_range(10**9)\ndef _(i):\n{LINE * 20}", "printed more than 4 MiB"),
    "never_ends": ("@do_while\ndef _():\n    return cint(1)\n", "had not finished after 15 s"),
    "crashes": ('print_ln("so far")\nruntime_error("it gave up")\n', "it gave up"),
    "asks": ('print_ln("%s", sint.get_input_from(1).reveal())\n', "not enough inputs in Player-Data"),
    "waits": ("listen_for_clients(14000)\naccept_client_connection(14000)\n", "had not finished after 15 s"),
}


@pytest.mark.mpspdz("ring")
def test_a_program_that_does_not_end_well_ends_in_a_sentence_at_all_hosts(hosts: Site) -> None:
    """Its log is cut, its last line is told, and the hosts go on with the next run at once."""
    with measuring(hosts) as measure:
        for name, (text, said) in BAD_PROGRAMS.items():
            cell = own_program(hosts, name, text)
            with allowing(hosts, measure(cell).reason):
                sample = measure(cell, timeout_s=15.0 if "15 s" in said else 600.0)
            assert sample.status == FAILED and said in str(sample.reason), (name, sample.reason)
            assert str(sample.reason).startswith("Part"), sample.reason  # no host was lost
            assert not any(parties_of(hosts))
        cell = own_program(hosts, "square", SQUARE, inputs=1)
        with allowing(hosts, measure(cell).reason):
            assert measure(cell).status == OK


@pytest.mark.mpspdz("ring")
def test_a_host_ends_a_program_that_takes_longer_than_its_owner_allows(hosts: Site) -> None:
    """However long the coordinator would wait; what is in every host's clone has the coordinator's time."""
    cell = own_program(hosts, "endless", "@do_while\ndef _():\n    return cint(1)\n")
    with measuring(hosts) as measure, allowing(hosts, measure(cell).reason):
        policy = hosts.directory(1) / "policy.toml"
        policy.write_text(f"benchmark_program_seconds = 1\n{policy.read_text()}")
        sample = measure(cell, timeout_s=600.0)
        said = "ends a coordinator's program after 1 s (benchmark_program_seconds in the owner's policy)."
        assert sample.status == FAILED and said in str(sample.reason), sample.reason
        assert str(sample.reason).startswith("Party 1 (on 127.0.0.1)"), sample.reason
        assert not any(parties_of(hosts))
        longer = {**PRINTED, "protocol": "pi_roc", "records": 4000, "thresholds": 1}
        assert measure(longer, timeout_s=600.0).status == OK


WRITES = """
sint.write_to_file([sint(5)])
_, (x,) = sint.read_from_file(0, 1)
print_ln("got %s", x.reveal())
cint(7).binary_output()
"""


@pytest.mark.mpspdz("ring")
def test_a_program_reads_and_writes_in_its_own_directory_alone(hosts: Site) -> None:
    """Files of shares, and of outputs, that bytecode names: none is the owner's, nor of another run."""
    left = [hosts.directory(party) / "Persistence" / f"Transactions-P{party}.data" for party in range(3)]
    for path in left:  # what a program would find if it ran in its owner's directory
        path.parent.mkdir()
        path.write_text("its owner's")
    cell = own_program(hosts, "writes", WRITES)
    with measuring(hosts) as measure, allowing(hosts, measure(cell).reason):
        before = [owners_files(hosts.directory(party)) for party in range(4)]
        sample = measure(cell)
        assert (sample.status, sample.reason) == (OK, None)
        assert [owners_files(hosts.directory(party)) for party in range(4)] == before
    for path in left:
        assert path.read_text() == "its owner's"
        shutil.rmtree(path.parent)


def owners_files(directory: Path) -> dict[str, bytes]:
    """Return a host's files but for its log, the name of its agent, and what is in directories of runs."""
    return {
        name: (directory / name).read_bytes()
        for name in files_below(directory)
        if (directory / name).is_file() and not name.startswith(".") and name not in (LOG_FILE, "agent")
    }


def test_a_host_without_the_word_or_with_another_program_refuses(hosts: Site, tmp_path: Path) -> None:
    with measuring(hosts) as measure:
        with refusing(hosts, 1) as reason:
            sample = measure()
            assert sample.status == FAILED and str(sample.reason).startswith(reason)
        assert measure().status == OK
    project = copy_of_project(tmp_path / "project")
    with (project / "Programs" / "Source" / "pi_rw.mpc").open("a") as program:
        program.write("# of yesterday\n")
    with measuring(hosts.with_host(2, project=str(project))) as measure:
        sample = measure()
    assert sample.status == FAILED and "are not those here" in str(sample.reason), sample.reason


@needs_proc
@pytest.mark.parametrize("culprit", ["party", "agent"])
def test_what_is_killed_at_a_host_is_named_and_the_next_run_goes_well(culprit: str, hosts: Site) -> None:
    have_party_0_stop(hosts)
    with measuring(hosts) as measure, ThreadPoolExecutor(1) as pool:
        run = pool.submit(measure, timeout_s=600.0)
        wait_until_midway(hosts, MODELS["mpyc"], run.done)
        party = party_on(hosts.directory(1))
        os.kill(party if culprit == "party" else parent(party), signal.SIGKILL)
        os.kill(party_on(hosts.directory(0)), signal.SIGCONT)
        sample = run.result()
        said = "was killed by SIGKILL" if culprit == "party" else "went away"
        assert sample.status == FAILED
        assert str(sample.reason).startswith(f"Party 1 (on 127.0.0.1) {said}"), sample.reason
        assert not any(parties_of(hosts))
        for path in hosts.directory(1).glob(".*"):  # as `hosts.clean` does
            shutil.rmtree(path)
        assert measure().status == OK


def parties_of(made: Site) -> list[set[int]]:
    """Return the parties' processes that there are at each host."""
    below = [processes_below(Path(host.directory)) for host in made.hosts]
    return [{pid for pid, cwd in processes.items() if cwd.name == "party"} for processes in below]


EXPERIMENT = """
name = "mine"
title = "Two models"
repetitions = 1
warm_up = false
[factors]
protocol = "pi_lap"
variant = "default"
network = "none"
samples = 4
epsilon = "1"
security = ["ring", "semi2k"]
[[grid]]
"""


@pytest.mark.mpspdz("ring", "semi2k")
def test_an_experiment_over_hosts_goes_on_where_one_refuses_and_is_resumed(hosts: Site) -> None:
    (hosts.home / "mine.toml").write_text(EXPERIMENT)
    over = ("bench.run", "mine.toml", "--hosts", "hosts.toml", "--out", "results", "--json")
    with refusing(hosts, 2) as reason:
        done = call(*over, cwd=hosts.home)
    by_model = {cell["cell"]["security"]: cell for cell in json.loads(done.stdout)}
    assert done.returncode in CODES and "1 failed" in done.stderr, done.stderr
    assert by_model["semi2k"]["ok"] == by_model["ring"]["failed"] == 1
    assert by_model["ring"]["reason"].startswith(reason)
    succeed("bench.run", "--resume", "results", cwd=hosts.home)
    samples = load(hosts.home / "results")
    assert [(one.cell["security"], one.status) for one in samples].count(("semi2k", "ok")) == 1
    assert [len(one.hosts) for one in samples if one.cell["security"] == "ring"] == [0, 3]


@needs_proc
def test_an_interrupt_leaves_nothing_running_anywhere(hosts: Site) -> None:
    (hosts.home / "mine.toml").write_text(EXPERIMENT.replace('["ring", "semi2k"]', '"mpyc"'))
    have_party_0_stop(hosts)
    run = start("bench.run", "mine.toml", "--hosts", "hosts.toml", "--out", "results", cwd=hosts.home)
    wait_until_midway(hosts, MODELS["mpyc"], ended(run))
    run.send_signal(signal.SIGINT)
    done = finish(run)
    assert done.returncode == 130 and "no run is left half-done" in done.stderr, done.stderr
    assert not any(parties_of(hosts)) and (hosts.home / "results" / "samples.jsonl").read_text() == ""
