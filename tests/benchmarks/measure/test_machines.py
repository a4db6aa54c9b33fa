"""Virtual machines of MP-SPDZ by their names: what each takes, what is refused, and that a program runs."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks.measure.machines import (
    MACHINES,
    MOST_ON_ONE_MACHINE,
    Arithmetic,
    MachineSetting,
    machine_name,
)
from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from fairshares.harness.errors import OptionError
from fairshares.harness.security_models import MODELS


def home() -> Path | None:
    found = find_installation()
    return found.home if isinstance(found, Installation) else None


HOME = home()
BUILT = [name for name in MACHINES if HOME is not None and (HOME / f"{name}-party.x").exists()]


def setting(machine: str, parties: int = 0, **options: object) -> MachineSetting:
    """Return a machine with its fewest parties, unless others are given, checked as from a message."""
    fields = {"machine": machine, "parties": parties or MACHINES[machine].fewest, **options}
    return msgspec.convert(fields, MachineSetting)


def test_machines_are_those_of_the_tables_of_mp_spdz() -> None:
    """Counted by hand in its README, without BMR, and with Yao's and the dealer's."""
    kinds = Counter((kind.arithmetic, kind.adversary) for kind in MACHINES.values())
    assert kinds == {
        (Arithmetic.RING, "passive"): 5,
        (Arithmetic.RING, "active"): 6,
        (Arithmetic.FIELD, "passive"): 7,
        (Arithmetic.FIELD, "active"): 9,
        (Arithmetic.FIELD, "covert"): 2,
        (Arithmetic.BINARY, "passive"): 3,
        (Arithmetic.BINARY, "active"): 5,
        (Arithmetic.GARBLED, "passive"): 1,
    }


@pytest.mark.skipif(HOME is None, reason="needs MP-SPDZ")
def test_every_machine_of_mp_spdz_is_listed() -> None:
    assert HOME is not None
    sources = {path.name.removesuffix("-party.cpp") for path in (HOME / "Machines").glob("*-party.cpp")}
    without_parties = {"no", "astra-prep", "trio-prep"}  # computes alone, or beside another machine
    assert sources - without_parties == set(MACHINES)


@pytest.mark.parametrize("name", BUILT)
def test_a_machine_takes_the_options_that_its_row_says(name: str) -> None:
    assert HOME is not None
    usage = subprocess.run(
        [HOME / f"{name}-party.x"], capture_output=True, text=True, check=False, cwd=HOME
    ).stdout
    options = set(re.findall(r"^(-\w+),", usage, re.MULTILINE))
    kind = MACHINES[name]
    assert ("-N" in options) == (kind.fewest != kind.most)
    assert ("-e" in options) == (kind.encrypts == "-e")
    assert ("-u" in options) == (kind.encrypts == "")
    assert {"-b", "-B", "-ip", "-OF", "-IF", "-v", "-p"} <= options
    assert kind.security is None or kind.security in options
    if kind.arithmetic in (Arithmetic.RING, Arithmetic.FIELD):
        assert ("-R" in options) == (kind.arithmetic is Arithmetic.RING)
        assert ("-P" in options) == (kind.arithmetic is Arithmetic.FIELD)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (setting("mascot", 3), None),
        (setting("mascot", 3, batch_size=100, bucket_size=3, security_bits=64), None),
        (setting("replicated-ring", 2), "replicated-ring takes 3 parties here, not 2."),
        (setting("shamir", 2), "shamir takes from 3 to 15 parties here, not 2."),
        (setting("astra"), "astra does not run by itself: it reads from a second machine, which makes its "),
        (setting("semi", security_bits=40), "semi has no statistical security parameter; leave out"),
        (
            setting("mascot", compile_options=["-R", "64"]),
            "mascot computes modulo a prime, and the compile option -R is for programs that compute modulo a "
            "power of two; leave it out.",
        ),
        (
            setting("semi2k", compile_options=["--field=64"]),
            "semi2k computes modulo a power of two, and the compile option --field is for programs that "
            "compute modulo a prime; leave it out.",
        ),
        (setting("semi2k", compile_options=["-B", "32"]), "for programs that compute on bits;"),
        (setting("tinier", compile_options=["-G"]), "compute on bits, by garbled circuits; leave it out."),
        (setting("yao", compile_options=["-B", "32", "-O"]), None),
        (setting("mascot", compile_options=["-E", "semi"]), "compiled for the machine that runs them; leave"),
        (setting("mascot", run_options=["-b", "7"]), "The option -b of a machine is set by batch_size; use"),
        (
            setting("mascot", run_options=["-ip", "x"]),
            "The option -ip of a machine is set by the run, as are",
        ),
        (setting("mascot", run_options=["-Q", "-o", "softspoken=3"]), None),
    ],
)
def test_options_that_cannot_go_together_are_refused_in_a_sentence(
    given: MachineSetting, said: str | None
) -> None:
    reason = given.refusal()
    assert (reason is None) == (said is None)
    assert reason is None or (str(said) in reason and reason.endswith(".") and "\n" not in reason)


@pytest.mark.parametrize(
    "options", [{"parties": 1}, {"batch_size": 0}, {"bucket_size": 6}, {"bucket_size": 2}, {"batch": 3}]
)
def test_a_setting_from_elsewhere_is_read_within_its_bounds(options: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"machine": "mascot", "parties": 2, **options}, MachineSetting)


def test_an_unknown_machine_is_asked_about() -> None:
    assert machine_name("malicious-shamir-party.x") == machine_name("malicious-shamir") == "malicious-shamir"
    with pytest.raises(OptionError, match=r"no machine 'mascott' of MP-SPDZ here \(did you mean mascot\?\)"):
        machine_name("mascott-party.x")


def test_programs_are_compiled_for_their_machine() -> None:
    assert setting("replicated-ring").compiler_options == ("-E", "replicated-ring", "-R", "64")
    assert setting("mascot").compiler_options == ("-E", "mascot", "-F", "64")
    assert setting("mascot", compile_options=["-F", "32", "-X"]).compiler_options[2:] == ("-F", "32", "-X")
    assert setting("mascot", compile_options=["-X"]).compiler_options[2:] == ("-X", "-F", "64")
    assert setting("yao").compiler_options[2:] == ("-G", "-B", "64")
    assert setting("yao", compile_options=["-G"]).compiler_options[2:] == ("-G", "-B", "64")
    assert setting("semi2k", 3).compiler_options[2:] == ("-R", "64", "-Z", "3")
    assert setting("semi2k", 3, compile_options=["-Y"]).compiler_options[2:] == ("-Y", "-R", "64")


def test_a_setting_is_a_model_on_which_no_release_runs() -> None:
    given = setting("spdz2k", 3, batch_size=77, bucket_size=4, security_bits=48, run_options=["-d"])
    model = given.model()
    assert model.run_options == ("-N", "3", "-e", "-B", "4", "-SP", "48", "-d")
    assert (model.batch(lanes=5), model.parties, model.corruptions) == (77, 3, 2)
    assert setting("malicious-shamir", 5).model().corruptions == 2
    assert setting("replicated-ring").model().run_options == ()
    for name, kind in MACHINES.items():
        if kind.beside is None:
            assert setting(name).model().name not in MODELS and setting(name).refusal() is None
    assert all(kind.most <= MOST_ON_ONE_MACHINE for kind in MACHINES.values())
