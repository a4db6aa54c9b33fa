"""Weights while records arrive, from the command line and in Python: two epochs in every model; mistakes."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import fairshares as fs
from harness.pipeline.arrivals import alone
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.coins import design_coins
from protocols.mechanisms.counts_so_far import Part, Schedule
from protocols.noise.truncated import error_bound
from tests.support.command import call, files_below, processes_below, refused
from tests.support.running import QUICKEST, model_parameters

DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 100}
CAPPED = {**DOMAIN, "cap": 2}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    (tmp_path / "capped.json").write_text(json.dumps(CAPPED))
    return tmp_path


def arrive(here: Path, *cells: str, model: str = QUICKEST, options: tuple[str, ...] = ()) -> None:
    """Have a client arrive with a record in each of these cells, "a0" for example."""
    rows = [f"c,{cell[0]},{cell[1]}\n" for cell in cells]
    (here / "mine.csv").write_text("client_id,group,label\n" + "".join(rows))
    domain = "capped.json" if options else "domain.json"
    given = ("--domain", domain, "--security", model, "--out", "shares", *options)
    done = call("share", "--records", "mine.csv", *given, cwd=here)
    assert done.returncode == 0, done.stderr


def epoch(here: Path, out: str, *options: str) -> dict[str, Any]:
    """Run an epoch; return its manifest."""
    done = call("weights", "--shares", "shares", "--arrivals", "series", "--out", out, *options, cwd=here)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((here / out / "manifest.json").read_text())
    return found


def counts(here: Path, out: str) -> list[float]:
    table = json.loads((here / out / "weights.json").read_text())["noisy_counts"]
    return [count for row in table for count in row]


def check(found: list[float], truth: list[int], releases: int) -> None:
    """Check counts that are the sum of so many releases, each of at least half of ε = 20 and δ."""
    bound = releases * error_bound(design_coins(Fraction(9), 41), Fraction(1, 10**10))
    assert all(abs(count - true) <= bound for count, true in zip(found, truth, strict=True))


@pytest.mark.parametrize("model", model_parameters())
def test_two_epochs(model: SecurityModel, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the second counts the first again, each with half of ε."""
    half, whole = Fraction(1, 2), Fraction(1)
    schedule = Schedule((Part(0, half), Part(0, half), Part(2, whole)))
    monkeypatch.setattr("harness.releases.weights.best_schedule", lambda horizon: schedule)
    arrive(here, *["a0"] * 30, "b1", model=model.name)
    new = ("--horizon", "3", "--epsilon", "20", "--security", model.name, "--population", "people")
    first = epoch(here, "first", *new)
    arrive(here, *["a1"] * 40, model=model.name)
    done = call("weights", "--shares", "shares", "--arrivals", "series", "--out", "second", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "Epoch 2 of 3: the counts are of all epochs so far together." in done.stdout
    assert "Charged to population 'people'" in done.stdout and "Spent in 1 run: ε" in done.stdout
    second = json.loads((here / "second" / "manifest.json").read_text())
    check(counts(here, "first"), [30, 0, 0, 1], 1)
    check(counts(here, "second"), [30, 40, 0, 1], 1)
    assert second["inputs"]["clients"] == 2
    assert second["privacy"] == first["privacy"] and second["security"] == model.name
    assert files_below(here / "second") == {
        *("manifest.json", "weights.json", "epoch", "epoch/manifest.json", "epoch/weights.json")
    }
    assert {path.name for path in (here / "series").iterdir()} == {"arrivals.json"}
    assert processes_below(here) == {}
    ledger = json.loads(call("ledger", "--json", cwd=here).stdout)
    (charge,) = ledger["populations"][0]["charges"]
    assert charge["status"] == "done"


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_slots_of_clients_that_keep_one_cap(model: SecurityModel, here: Path) -> None:
    """A client with three records in two epochs, of which its cap leaves two."""
    of_client = ("--counted", "mine.json")
    arrive(here, "a0", model=model.name, options=of_client)
    new = ("--horizon", "2", "--epsilon", "20", "--security", model.name, "--privacy-unit", "client")
    found = epoch(here, "first", *new)
    assert found["privacy"]["cap_kept_by"] == "each client itself; nobody checks"
    arrive(here, "b1", "b1", model=model.name, options=of_client)
    assert json.loads((here / "mine.json").read_text()) == {"schema": 1, "records": {"c": 2}}
    second = epoch(here, "second")
    assert second["privacy"]["privacy_unit"] == "client" and second["inputs"]["clients"] == 1
    bound = 2 * error_bound(design_coins(Fraction(9, 4), 43), Fraction(1, 10**10))
    assert all(abs(a - b) <= bound for a, b in zip(counts(here, "second"), [1, 0, 0, 1], strict=True))


def test_in_python(here: Path) -> None:
    arrive(here, *["a0"] * 30)
    given: dict[str, Any] = {"shares": here / "shares", "arrivals": here / "series", "horizon": 2}
    first = fs.weights(epsilon=20, security=QUICKEST, **given)
    arrive(here, *["a1"] * 40)
    second = fs.weights(epsilon=20, **given)
    check(first.noisy_counts.tolist(), [30, 0, 0, 0], 1)
    check(second.noisy_counts.tolist(), [30, 40, 0, 0], 2)
    assert "Epoch 2 of 2" in str(second) and "it held all shares" in str(second)
    with pytest.raises(fs.FairSharesError, match=r"was begun with epsilon=20 for all epochs, not 2"):
        fs.weights(epsilon=2, **given)
    with pytest.raises(fs.FairSharesError, match=r"neither records= nor"):
        fs.weights(here / "mine.csv", epsilon=20, **given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--epsilon", "2"), "was begun with --epsilon 20 for all epochs, not 2; leave --epsilon out"),
        (("--horizon", "3"), "was begun with --horizon 2 for all epochs, not 3"),
        (("--delta", "1e-9"), "was begun with --delta 2^-40 for all epochs, not 1e-9"),
        (("--security", "semi2k"), f"was begun with --security {QUICKEST} for all epochs, not semi2k"),
        (("--noise", "distributed"), "was begun with --noise joint for all epochs, not own"),
        (("--epsilon", "20.0", "--horizon", "2"), "All 1 uploads in shares went into epochs of"),
        (("--records", "mine.csv"), "--arrivals counts uploads: give it, a folder, together with --shares"),
        (("--domain", "capped.json"), "All 1 uploads in shares went into epochs of"),
    ],
)
def test_what_contradicts_the_first_epoch_is_refused(
    options: tuple[str, ...], said: str, series: Path
) -> None:
    again = ("weights", "--shares", "shares", "--arrivals", "series", "--out", "again")
    assert said in refused(*again, *options, cwd=series)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the first epoch of two, which tests leave as it is."""
    here = tmp_path_factory.mktemp("series")
    (here / "domain.json").write_text(json.dumps(DOMAIN))
    (here / "capped.json").write_text(json.dumps(CAPPED))
    arrive(here, "a0")
    epoch(
        here,
        "first",
        "--horizon",
        "2",
        "--epsilon",
        "20",
        "--security",
        QUICKEST,
        "--ledger",
        "ledger.sqlite",
    )
    return here


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "series is new: give --horizon, the number of epochs, and --epsilon, for all of them together"),
        (("--horizon", "2"), "series is new: give --horizon"),
        (("--epsilon", "1"), "series is new: give --horizon"),
        (("--horizon", "1001", "--epsilon", "1"), "--horizon"),
        (("--horizon", "0", "--epsilon", "1"), "--horizon"),
        (("--horizon", "1000", "--epsilon", "1e-8"), "--epsilon"),
    ],
)
def test_a_new_series_says_how_long_it_is_and_what_it_may_spend(
    options: tuple[str, ...], said: str, here: Path
) -> None:
    arrive(here, "a0")
    new = ("weights", "--shares", "shares", "--arrivals", "series", "--security", QUICKEST, *options)
    assert said in refused(*new, cwd=here)


def test_a_horizon_without_a_series_is_refused(here: Path) -> None:
    assert "--arrivals counts uploads" in refused(
        "weights", "--records", "mine.csv", "--horizon", "2", "--epsilon", "1", cwd=here
    )


def test_hosts_keep_no_series(here: Path) -> None:
    given = ("weights", "--hosts", "hosts.toml", "--epsilon", "1")
    for series in (("--arrivals", "series"), ("--horizon", "2"), ("--arrivals", "series", "--horizon", "2")):
        assert "Hosts keep no series of epochs" in refused(*given, *series, cwd=here)
    assert not (here / "series").exists()


def test_two_at_once(series: Path) -> None:
    again = ("weights", "--shares", "shares", "--arrivals", "series")
    with alone(series / "series"):
        assert "Another epoch of series is going on; run this one when that has ended." in refused(
            *again, cwd=series
        )


def test_a_cap_over_all_uploads_needs_a_cap(here: Path) -> None:
    (here / "mine.csv").write_text("client_id,group,label\nc,a,0\n")
    share = (
        "share",
        "--records",
        "mine.csv",
        "--domain",
        "domain.json",
        "--out",
        "shares",
        "--security",
        "mpyc",
    )
    for more in ((), ("--cap", "weight-one")):
        assert "--counted keeps all uploads of a client to one cap: give --cap, a number" in refused(
            *share, "--counted", "mine.json", *more, cwd=here
        )
