"""`./inv cap`, as a user meets it: a cap, then the release with it; shares; what does not go together."""

import json
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from harness.inputs.record_schema import RecordDomain
from harness.privacy.ledger.entries import Ledger
from harness.releases.contribution_cap import CapTarget
from harness.security_models import MODELS, SecurityModel
from protocols.guarantee import Guarantee
from tests.support.command import call, refused
from tests.support.running import model_parameters

DECLARED = ("--groups", "a,b", "--labels", "0,1")
RING = model_parameters(models=[MODELS["ring"]])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records: 30 clients have 5 of (a, 0), two have 100 of (b, 1)."""
    rows = [f"c{k},a,0,0.5" for k in range(30) for _ in range(5)] + ["x,b,1,0.9", "y,b,1,0.9"] * 100
    (tmp_path / "mine.csv").write_text("\n".join(["client_id,group,label,score", *rows]) + "\n")
    (tmp_path / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 21}')
    return tmp_path


def succeed(*arguments: str, cwd: Path) -> str:
    done = call(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("model", RING)
def test_a_cap_and_the_release_with_it(model: SecurityModel, here: Path) -> None:
    """Weights of four counts at ε = 4: seven clients may exceed the cap, and two do. Both are charged."""
    common = ("--records", "mine.csv", *DECLARED, "--security", model.name, "--population", "p")
    said = succeed("cap", *common, "--epsilon", "20", "--release-epsilon", "4", "--out", "cap", cwd=here)
    assert "all of a client's records." in said and "Revealed: which cap was chosen" in said
    (line,) = (line for line in said.splitlines() if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: ./inv "))
    assert words[0] == "weights" and words[-4:] == ["--privacy-unit", "client", "--cap", "6"]
    succeed(*words, "--out", "weights", cwd=here)
    assert json.loads((here / "weights" / "manifest.json").read_text())["privacy"]["cap"] == 6
    (population,) = Ledger().populations()
    assert [charge.task for charge in population.charges] == ["cap", "weights"]
    assert all(charge.noise is None for charge in population.charges)  # no counts that move by 1 each


@pytest.mark.parametrize("model", RING)
def test_a_cap_for_confusion_matrices_and_what_comes_next(model: SecurityModel, here: Path) -> None:
    """Eight counts at ε = 4: fifteen clients may exceed the cap, in a model that withstands no deviation."""
    options = ("--release", "confusion", "--release-epsilon", "4", "--epsilon", "20", "--out", "cap")
    said = succeed("cap", "--records", "mine.csv", *DECLARED, "--security", model.name, *options, cwd=here)
    (line,) = (line for line in said.splitlines() if line.startswith("Next: "))
    assert "./inv confusion --records mine.csv" in line and line.endswith("--privacy-unit client --cap 6")
    assert json.loads((here / "cap" / "cap.json").read_text())["allowed_above"] == 15


@pytest.mark.parametrize("model", RING)
def test_json_for_curves_of_a_domain_file(model: SecurityModel, here: Path) -> None:
    options = ("--release", "thresholds", "--release-epsilon", "1/2", "--epsilon", "20", "--json")
    common = ("--records", "mine.csv", "--domain", "domain.json", "--security", model.name)
    found = json.loads(succeed("cap", *common, *options, "--out", "cap", cwd=here))
    assert found == json.loads((here / "cap" / "cap.json").read_text())
    assert found["allowed_above"] > 32 and found["cap"] == found["caps"][0] == 1 and found["caps"][-1] == 1000


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["rep4-ring"]]))
def test_the_cap_of_curves_is_for_the_variant_that_will_run(model: SecurityModel, here: Path) -> None:
    """A server there can move a record to another cell: noise is doubled, and so are clients above."""
    common = ("--records", "mine.csv", "--domain", "domain.json", "--security", model.name)
    succeed("share", *common, "--task", "cap", "--out", "sizes", cwd=here)
    options = ("--release", "thresholds", "--release-epsilon", "1", "--variant", "records")
    run = ("cap", "--shares", "sizes", "--epsilon", "20", "--security", model.name)
    said = succeed(*run, *options, "--out", "cap", cwd=here)
    release = CapTarget("thresholds", Guarantee(Fraction(1), Fraction(1, 2**40)), malleable_slots=True)
    above = release.allowed_above(RecordDomain(("a", "b"), ("0", "1"), 1000))
    assert json.loads((here / "cap" / "cap.json").read_text())["allowed_above"] == above
    first, then = (line for line in said.splitlines() if "./inv " in line)
    assert "--input-form keys" in first and "--variant records" in then


@pytest.mark.parametrize("model", RING)
def test_shares_of_sizes_are_for_this_alone(model: SecurityModel, here: Path) -> None:
    own = ("--records", "mine.csv", *DECLARED, "--security", model.name)
    succeed("share", *own, "--task", "cap", "--out", "sizes", cwd=here)
    succeed("share", *own, "--cap", "5", "--out", "slots", cwd=here)
    run = ("cap", "--epsilon", "20", "--release-epsilon", "4", "--security", model.name, "--shares")
    said = succeed(*run, "sizes", "--out", "cap", cwd=here)
    again, then = (shlex.split(line.split("./inv ")[1]) for line in said.splitlines() if "./inv " in line)
    (here / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"]}')
    listed = ("--party", "0", "--shares", "sizes/party-0", "--domain", "domain.json", "--out", "list")
    said = succeed("uploads", *listed, cwd=here)
    assert "0 uploads are sound here. Others: 1 of another domain than was declared." in said
    assert '"sizes": true' in said
    files = iter(("mine.csv", "domain.json"))
    succeed(*(next(files) if word == "FILE" else word for word in again), "--out", "again", cwd=here)
    succeed(*("again" if word == "SHARES" else word for word in then), "--out", "weights", cwd=here)
    assert json.loads((here / "weights" / "manifest.json").read_text())["privacy"]["cap"] == 6
    assert "cap needs their number alone" in refused(*run, "slots", "--out", "other", cwd=here)
    client = ("--epsilon", "20", "--privacy-unit", "client", "--security", model.name)
    assert "These shares are of records with their number alone" in refused(
        "weights", *client, "--shares", "sizes", "--out", "other", cwd=here
    )
    assert not (here / "other").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--epsilon 1", "--release-epsilon is missing"),
        ("--release-epsilon 1", "--epsilon is missing"),
        ("--epsilon 1 --release-epsilon 0", "--release-epsilon must be a number above 0"),
        (
            "--epsilon 1 --release-epsilon 1 --release gap",
            "--release must be weights, confusion, thresholds or counts",
        ),
        (
            "--epsilon 1 --release-epsilon 1 --release counts",
            "and --counts (how many; 1 for one sum) go together",
        ),
        ("--epsilon 1 --release-epsilon 1 --counts 4", "--release counts and --counts"),
        ("--epsilon 1 --release-epsilon 1 --variant records", "--variant goes with --release thresholds"),
        (
            "--epsilon 1 --release-epsilon 1 --release thresholds --variant split",
            "--variant must be histogram or records",
        ),
        (
            "--epsilon 1 --release-epsilon 1 --release thresholds --variant records",
            "Security model mpyc cannot do this.",
        ),
        ("--epsilon 1 --release-epsilon 1 --release counts --counts 0", "--counts must be a whole number"),
        ("--epsilon 1 --release-epsilon 1 --cap 5", "cap has no option --cap"),
        ("--epsilon 1 --release-epsilon 1 --neighboring-relation replace_one", "cap has no option"),
        (
            "--epsilon 1 --release-epsilon 1 --input-path clients",
            "must be shares or replicated; got 'clients'",
        ),
        ("--epsilon 1 --release-epsilon 1 --domain capped.json", "there is no cap to choose"),
        ("--epsilon 1 --release-epsilon 1 --domain one.json", "over the declared maximum of 1"),
        ("--epsilon 1 --release-epsilon 1e-30", "--release-epsilon 1e-30 is too small"),
        ("--epsilon 1e-7 --release-epsilon 1", "No noise fits --epsilon 1e-7"),
    ],
)
def test_careless_options(options: str, message: str, here: Path) -> None:
    domain = {"groups": ["a", "b"], "labels": ["0", "1"]}
    (here / "capped.json").write_text(json.dumps({**domain, "cap": 5}))
    (here / "one.json").write_text(json.dumps({**domain, "max_count": 1}))
    assert message in refused(
        "cap", "--records", "mine.csv", "--security", "mpyc", *options.split(), cwd=here
    )


def test_one_record_each_leaves_nothing_to_choose(here: Path) -> None:
    (here / "each.csv").write_text("client_id,group,label\na,a,0\nb,b,1\n")
    options = ("--epsilon", "1", "--release-epsilon", "1", "--max-count", "1", "--security", "mpyc")
    assert "one record at most: there is no cap to choose" in refused(
        "cap", "--records", "each.csv", *options, "--out", "cap", cwd=here
    )
    done = call(
        "share", "--records", "mine.csv", *DECLARED, "--task", "cap", "--cap", "5", "--out", "s", cwd=here
    )
    assert done.returncode == 1 and "there is no cap to choose" in done.stderr
    assert not (here / "cap").exists() and not (here / "s").exists()
