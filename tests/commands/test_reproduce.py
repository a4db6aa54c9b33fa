"""`reproduce gaps` as a user runs it: its files, its tables, what it refuses; options of all studies."""

import json
from pathlib import Path

import pytest

from benchmarks.commands.options import STUDIES, ReproduceOptions
from harness.errors import OptionError
from tests.support.command import call


def test_quick_reproduction(tmp_path: Path) -> None:
    done = call("reproduce", "gaps", "--quick", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "about.json",
        "figure-1.png",
        "figure-2.png",
        "figure-3.png",
        "figure-4.png",
        "gaps.json",
    ]
    shown = json.loads((tmp_path / "found" / "gaps.json").read_text())
    assert shown["population"]["source"] == "synthetic"
    assert all(cell["agrees"] for cell in shown["table1"] + shown["table2"])
    assert "SYNTHETIC" in done.stdout and "30 of 30 cells" in done.stdout
    about = json.loads((tmp_path / "found" / "about.json").read_text())
    assert about["command"] == "./inv reproduce gaps --quick"


@pytest.mark.parametrize("study", STUDIES)
def test_an_option_of_another_study_is_refused(study: str) -> None:
    others = ReproduceOptions.declared.keys() - STUDIES[study].keys() - {"name", "out", "json"}
    for name in others:
        (other, *_) = (each for each, options in STUDIES.items() if name in options)
        text = STUDIES[other][name] or "there"
        with pytest.raises(OptionError) as refusal:
            ReproduceOptions(name=study, **{name: text})
        flag = ReproduceOptions.declared[name].flag
        assert str(refusal.value).startswith(f"{flag} is an option of ")
        assert other in str(refusal.value) and str(refusal.value).endswith(f"not of {study}; leave it out.")


def test_a_study_has_the_defaults_that_its_command_names() -> None:
    found = ReproduceOptions(name="capping", movielens="far/ml-100k", held_out="synthetic,far/ml-1m")
    assert found.clients == [1000, 10_000, 100_000] and found.exponents == [1.5, 2]
    assert found.command == (
        "./inv reproduce capping --clients 1000,10000,100000 --exponents 1.5,2 --movielens ml-100k "
        "--held-out synthetic,ml-1m"
    )
    assert ReproduceOptions(name="training", resume="there").command == "./inv reproduce training"
    assert ReproduceOptions(name="trust", quick=True).repetitions == 1000
    for study, least in (("plans", 1), ("trust", 100), ("utility", 2)):
        assert ReproduceOptions(name=study, repetitions=str(least)).repetitions == least
        with pytest.raises(OptionError, match=f"--repetitions must be a whole number from {least} to"):
            ReproduceOptions(name=study, repetitions=str(least - 1 or 100_001))
