"""A coordinator's own program at a host: nothing runs but what the owner allowed, to the last byte.

Files and versions are made up here; tests/commands/test_bench_hosts.py runs programs of MP-SPDZ over hosts.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from benchmarks.measure.sent_programs import without_place
from fairshares.harness.engines.compiled import MachineOptions, tapes_in
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.parties.sandbox import Protection
from fairshares.harness.errors import HostUnfitError, PolicyError, UnsupportedError
from fairshares.harness.hosts import runs
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.decision import Benchmark, Ground, HostRules, Refused, Rule, decide
from fairshares.harness.hosts.local_host import TurnNotTaken
from fairshares.harness.hosts.messages import RunTrial, TakeProgram, read_message
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.states import NoRun, State
from fairshares.harness.hosts.trials import Trial, public_integers
from fairshares.harness.security_models import MODELS, get_model
from fairshares.harness.system.files import PREFIX
from tests.support.coordinators import (
    ANY_PORT,
    Coordinator,
    answered,
    as_sent,
    make_hosts,
    run_of,
    write_rules,
)
from tests.support.sent_programs import SQUARE, VERSION, SentProgram, schedule_of, sent_program

TABLE = '[[population]]\nname = "loans"\nepsilon = 4\ndelta = 0.5\nsecurity = ["ring", "rep4-ring", "mpyc"]\n'
PROGRAM = sent_program()


def policy_for(*programs: SentProgram) -> str:
    """Return the policy of an owner who allows these programs."""
    digests = [program.digest for program in programs]
    return f"{ANY_PORT}benchmark = true\nbenchmark_programs = {digests}\n{TABLE}"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a version of MP-SPDZ, and a kernel with all protections, whatever is here."""
    monkeypatch.setattr(MpSpdzEngine, "version", lambda _self: VERSION)
    monkeypatch.setattr(runs, "missing", lambda: ())


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return the directory of a host whose owner allows `PROGRAM`, with uploads."""
    return make_hosts(tmp_path, policy_for(PROGRAM))[1]


@pytest.fixture
def work(host: Path, stack: ExitStack) -> Work:
    return Coordinator(host, stack).work


def propose(work: Work, trial: Trial) -> None:
    work.run_trial(RunTrial(party=1, trial=trial))


def files_of_runs(host: Path) -> list[str]:
    """Return the files of programs in a host's directories of runs."""
    return sorted(path.name for path in host.glob(f"{PREFIX}*/Programs/*/*"))


@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
def test_a_program_that_its_owner_allows_arrives_in_pieces(piece_bytes: int, host: Path, work: Work) -> None:
    propose(work, PROGRAM.trial)
    assert run_of(work).NAME is State.PROMISED
    for message in PROGRAM.messages(piece_bytes):
        assert run_of(work).NAME is State.PROMISED
        assert answered(work, read_message(TakeProgram, fields_of(message))) is None
    assert run_of(work).NAME is State.FED
    (place,) = host.glob(f"{PREFIX}*/Programs")
    assert (place / "Schedules" / "square.sch").read_bytes() == PROGRAM.contents[0]
    assert [(place / "Bytecode" / f"{name}.bc").read_bytes() for name in SQUARE] == [*SQUARE.values()]
    assert files_of_runs(host) == ["square-0.bc", "square-multithread-1.bc", "square.sch"]
    assert not (host / LEDGER).exists()


def fields_of(message: TakeProgram) -> Any:
    return {name: value for name, value in as_sent(message).items() if name != "do"}


CHANGED = {
    "another tape": sent_program({**SQUARE, "square-0": b"Bytes of a tape"}),
    "a tape more": sent_program({**SQUARE, "square-2": b"more"}),
    "a tape less": sent_program({"square-0": SQUARE["square-0"]}),
    "another order of tapes": sent_program(dict(reversed(SQUARE.items()))),
    "another schedule": sent_program(schedule=schedule_of(*SQUARE).replace(b"R:64", b"R:32")),
    "a batch": sent_program(options=MachineOptions(batch=7)),
    "another machine": sent_program(security="rep4-ring"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_what_differs_in_anything_is_refused_before_it_is_sent(change: str, host: Path, work: Work) -> None:
    """The refusal has the digest by which its owner may allow it; nothing is kept, not even the turn."""
    changed = CHANGED[change]
    with pytest.raises(PolicyError, match=rf'benchmark_programs = \["{changed.digest}"\]'):
        propose(work, changed.trial)
    assert work.state == NoRun() and work.host.turn == TurnNotTaken()
    assert len({PROGRAM.digest, *(program.digest for program in CHANGED.values())}) == 1 + len(CHANGED)
    assert files_of_runs(host) == []


def test_a_digest_is_of_the_options_that_the_machine_gets() -> None:
    """Of spdz2k, too, whose security a program may raise; other machines have none to set."""
    higher = MachineOptions(statistical_security=64)
    assert higher.words(get_model("spdz2k")) == ("-N", "2", "-e", "-SP", "64")
    assert MachineOptions(batch=9).words(get_model("semi2k")) == ("-N", "2", "-e", "-d", "-b", "9")
    digests = [
        sent_program(security="spdz2k", options=options).digest
        for options in (MachineOptions(), higher, MachineOptions(batch=9))
    ]
    assert len({*digests}) == 3
    with pytest.raises(UnsupportedError, match="has no statistical security to set"):
        higher.words(get_model("ring"))
    with pytest.raises(UnsupportedError, match="runs no bytecode"):
        PROGRAM.trial.program.digest(get_model("mpyc"))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("schedule", {"name": "../square.sch"}),
        ("schedule", {"name": "square.bc"}),
        ("schedule", {"name": "/square.sch"}),
        ("schedule", {"name": "-I.sch"}),
        ("schedule", {"name": ".sch"}),
        ("schedule", {"name": "square.sch\n"}),
        ("schedule", {"size": 0}),
        ("schedule", {"size": (1 << 28) + 1}),
        ("schedule", {"sha256": "0"}),
        ("tape", {"name": "../../../keys/mp-spdz/P1.bc"}),
        ("tape", {"name": "square/0.bc"}),
        ("tape", {"name": "square-0.sch"}),
        ("tape", {"name": "x" * 101 + ".bc"}),
        ("tape", {"more": ""}),
        ("options", {"batch": 0}),
        ("options", {"batch": "-I"}),
        ("options", {"statistical_security": 129}),
        ("options", {"words": ["-I"]}),
        ("trial", {"integers": 10**7 + 1}),
        ("trial", {"asked": {}}),
    ],
)
def test_a_file_has_a_plain_name_and_a_size(field: str, changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = as_sent(RunTrial(party=1, trial=PROGRAM.trial))
    del fields["do"]
    assert read_message(RunTrial, fields).trial == PROGRAM.trial
    trial = fields["trial"]
    places = {"trial": trial, "tape": trial["program"]["tapes"][0], **trial["program"]}
    places[field] |= changes
    with pytest.raises(HostUnfitError, match="is not one of this version"):
        read_message(RunTrial, fields)


def test_tapes_are_few_and_differ_in_name(host: Path, work: Work) -> None:
    (first, second) = PROGRAM.trial.program.tapes
    twice = structs.replace(PROGRAM.trial.program, tapes=(first, structs.replace(second, name=first.name)))
    large = structs.replace(
        PROGRAM.trial.program, tapes=(structs.replace(first, size=1 << 28), structs.replace(second, size=1))
    )
    for program, match in ((twice, "two tapes of one name"), (large, "offered a program of")):
        trial = structs.replace(PROGRAM.trial, program=program)
        write_rules(host, policy_for(replace(PROGRAM, trial=trial)))
        with pytest.raises(HostUnfitError, match=match):
            propose(work, trial)
    fields: dict[str, Any] = as_sent(RunTrial(party=1, trial=PROGRAM.trial))
    fields["trial"]["program"]["tapes"] *= 129
    del fields["do"]
    with pytest.raises(HostUnfitError, match="is not one of this version"):
        read_message(RunTrial, fields)
    assert work.state == NoRun()


def spoilt(message: TakeProgram, **changes: Any) -> TakeProgram:
    return structs.replace(message, **changes)


def test_another_piece_than_the_next_one_is_refused_and_changes_nothing(host: Path, work: Work) -> None:
    """Whoever sends it: a piece again, a later one, more bytes, other bytes, another file."""
    propose(work, PROGRAM.trial)
    first, *others = PROGRAM.messages(20)
    answered(work, first)
    schedule = PROGRAM.contents[0]
    wrong = [
        (first, "waits for byte 20 of the program's file 0"),
        (others[1], "waits for byte 20"),
        (spoilt(others[0], file=1, at=0), "waits for byte 20"),
        (spoilt(others[0], piece=schedule[20:] + b"x"), "more of square.sch than the"),
        (spoilt(others[0], piece=b"x" * (len(schedule) - 20)), "another square.sch than the one"),
    ]
    before = run_of(work)
    for message, match in wrong:
        with pytest.raises(HostUnfitError, match=match):
            answered(work, message)
        assert run_of(work) is before
        (path,) = host.glob(f"{PREFIX}*/Programs/Schedules/*")
        assert path.read_bytes() == schedule[:20]
    for message in others:
        answered(work, message)
    assert run_of(work).NAME is State.FED


def test_a_full_disk_keeps_nothing_of_a_piece(
    host: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose(work, PROGRAM.trial)
    first, second, *_ = PROGRAM.messages(20)

    class Full:
        """A file that takes half of what is written."""

        def __init__(self, path: Path) -> None:
            self.path = path

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, content: bytes) -> None:
            with open(self.path, "ab") as file:  # noqa: PTH123  as `Path.open` is this one
                file.write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

    for message, there in ((first, []), (second, [PROGRAM.contents[0][:20]])):
        with monkeypatch.context() as full:
            full.setattr(Path, "open", lambda path, _mode: Full(path))
            with pytest.raises(OSError, match="No space left"):
                answered(work, message)
        assert [path.read_bytes() for path in host.glob(f"{PREFIX}*/Programs/*/*")] == there
        answered(work, message)


@pytest.mark.parametrize(
    "schedule",
    [
        schedule_of("square-0"),
        schedule_of(*SQUARE, "square-2"),
        schedule_of("square-0", "../../../keys/mp-spdz/P1"),
        b"1\n1000000000\nsquare-0:3\n",
        b"nothing",
        b"1 0",
    ],
)
def test_a_schedule_names_the_tapes_that_came_and_no_others(schedule: bytes, host: Path, work: Work) -> None:
    """Even if an owner allowed its digest."""
    strange = sent_program(schedule=schedule)
    write_rules(host, policy_for(strange))
    propose(work, strange.trial)
    with pytest.raises((HostUnfitError, UnsupportedError), match=r"names other tapes|schedule is none"):
        answered(work, strange.messages()[0])
    assert files_of_runs(host) == [] and run_of(work).NAME is State.PROMISED


def test_a_schedule_is_read_as_the_machine_reads_it() -> None:
    assert tapes_in(b"3\n2\na-0:25 b:1:95\n1 0\n0\n") == ["a-0.bc", "b:1.bc"]
    assert tapes_in(b"1 1 a") == ["a.bc"]
    text = schedule_of("a").replace(b"compile.py", b"/srv/MP-SPDZ/compile.py -R 64")
    assert without_place(text) == schedule_of("a").replace(b"compile.py", b"compile.py -R 64")
    assert without_place(schedule_of("a")) == schedule_of("a")


@pytest.mark.parametrize(
    ("rules", "ground"),
    [
        ({}, None),
        ({"benchmark": False}, Ground.BENCHMARK),
        ({"benchmark_security": ("mpyc",)}, Ground.BENCHMARK_SECURITY),
        ({"benchmark_programs": ()}, Ground.BENCHMARK_PROGRAMS),
        ({"benchmark_programs": (CHANGED["a batch"].digest,)}, Ground.BENCHMARK_PROGRAMS),
        ({"coordinators": ("alice",)}, Ground.COORDINATORS),
    ],
)
def test_a_policy_allows_a_program_by_all_of_its_fields(rules: dict[str, Any], ground: Ground | None) -> None:
    given = {"benchmark": True, "benchmark_security": ("ring",), "benchmark_programs": (PROGRAM.digest,)}
    table: tuple[Rule, ...] = ()
    decision = decide(HostRules(table, **{**given, **rules}), "bob", Benchmark("ring", PROGRAM.digest))
    assert (decision.ground if isinstance(decision, Refused) else None) is ground
    without = decide(HostRules(table, **{**given, **rules}), "bob", Benchmark("ring"))
    assert isinstance(without, Refused) == (ground not in (None, Ground.BENCHMARK_PROGRAMS))


def test_a_host_that_cannot_shut_a_party_off_runs_no_program(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "missing", lambda: (Protection.FILES, Protection.PORTS))
    with pytest.raises(HostUnfitError, match="could read and write its owner's other files; connect to any"):
        propose(work, PROGRAM.trial)
    assert work.state == NoRun()


@pytest.mark.parametrize("version", [None, "MP-SPDZ 2 (of a test)"])
def test_a_host_with_another_machine_runs_no_program(
    version: str | None, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MpSpdzEngine, "version", lambda _self: version)
    with pytest.raises(HostUnfitError, match=f"that {VERSION.partition(' (')[0]} .* compiled, and has "):
        propose(work, PROGRAM.trial)
    assert work.state == NoRun()


@pytest.mark.parametrize("party", [-1, 3])
def test_integers_are_public_and_of_the_parties_of_the_model(party: int) -> None:
    """Each host makes them itself, the same in every run, below 2^16."""
    trial = structs.replace(PROGRAM.trial, integers=5)
    made = public_integers(3, 5)
    assert [trial.values(number) for number in range(3)] == [
        "".join(f"{integer}\n" for integer in integers).encode() for integers in made
    ]
    assert len({*made}) == 3 and all(0 <= integer < 1 << 16 for integers in made for integer in integers)
    assert PROGRAM.trial.values(0) is None
    with pytest.raises(HostUnfitError, match="other parties"):
        trial.values(party)
    assert set(MODELS) > {"ring"}
