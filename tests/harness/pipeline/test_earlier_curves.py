"""Thresholds chosen again on released curves: those of a run, for any other choice, for no epsilon."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from fairshares.harness.cli.commands.releases import release as releasing
from fairshares.harness.engines.execution import EngineResult, PrivateJob, times_of
from fairshares.harness.errors import InfeasibleError, OptionError, RecordDomainError, ResultFileError
from fairshares.harness.inputs.record_schema import WEIGHT_SLOTS, Cap, RecordDomain, RecordKind, as_grid
from fairshares.harness.pipeline.earlier_curves import OPENED_NOTHING, choose_again, read_curves
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import PartyInputs, Source
from fairshares.harness.postprocessing.curves import exact_curves
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.releases.registry import RELEASES
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.thresholds.statistic import (
    CurvesStatistic,
    ThresholdChoice,
    Thresholds,
    ThresholdsStatistic,
)
from fairshares.harness.releases.thresholds.view import another_choice
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import write_files
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.spec import KEYS, ProtocolSpec
from tests.support.command import read_json
from tests.support.requests import request_of
from tests.support.runners import StandInRunner
from tests.support.stated import PRIVACY

pytestmark = pytest.mark.usefixtures("in_shell")

GRID = as_grid([0.1, 0.2, 0.35, 0.5, 0.8, 0.9, 1.0])
ODDS = ThresholdChoice("equalized_odds", "accuracy_score", 0.0, False)
PARITY = ThresholdChoice("demographic_parity", "balanced_accuracy_score", 0.1, True)
RNG = np.random.default_rng(5)
N = 8000
GROUP, LABEL = RNG.integers(0, 2, N), RNG.integers(0, 2, N)
SCORE = np.round(np.clip(RNG.normal(0.4 + 0.2 * LABEL - 0.05 * GROUP, 0.2), 0, 1), 2)


class Opening(StandInRunner):
    """Opens given values, whatever it is to run."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def opens(self, job: PrivateJob, model: SecurityModel) -> EngineResult:
        opened = {"nodes": tuple(self.values)}
        seconds, sent = (0.1, 0.2, 0.1), (1, 2, 3)
        return EngineResult(
            model=model,
            outputs=opened,
            engine=model.engine,
            engine_version="rigged",
            program_hash="ab" * 32,
            times=times_of(seconds, 0.5),
            rounds=12,
            sent_bytes=sent,
        )


class Given(Source):
    """Inputs as they are given."""

    def __init__(self, inputs: PartyInputs) -> None:
        self.inputs = inputs

    def describe(self, *_: Any) -> PartyInputs:
        return self.inputs

    def deliver(self, *_: Any) -> PartyInputs:
        return self.inputs


def write_again(out: Path, *choice: Any) -> None:
    """Choose on released curves again, and write what comes of it."""
    _, manifest, files = choose_again(*choice)
    write_files(out, {**files_to_json(files), "manifest.json": as_json(manifest)})


def a_run(
    out: Path, choice: ThresholdChoice = ODDS, positive: str = "", spec: ProtocolSpec = PI_ROC
) -> Run[Thresholds]:
    """Release curves of the records, without noise but with its distribution; for keys clients weigh 1."""
    kept = Cap(WEIGHT_SLOTS, weight_one=True) if spec is PI_ROC_RECORDS else None
    domain = RecordDomain(
        ("a", "b"), ("no", "yes"), 100, cap=kept, kind=RecordKind.SCORE, thresholds=GRID, inferred=False
    )
    pair, scores = GROUP * 2 + LABEL, SCORE.tolist()
    form = KEYS if spec is PI_ROC_RECORDS else next(iter(spec.input_forms.values()))
    unit = PrivacyUnit.CLIENT if kept else PrivacyUnit.RECORD
    runner = Opening([])
    release = request_of(MODELS["ring"], form, Fraction(4), Fraction(1, 2**40), unit=unit)
    curves = CurvesStatistic(False, positive, spec)
    blocks = tuple(map(int, str(curves.prepare(release, domain).arguments["blocks"]).split(".")))
    opened = np.array(reference.block_counts(pair, scores, 4, GRID, blocks)) * (kept.slots if kept else 1)
    runner.values = opened.tolist()
    source = Given(PartyInputs(domain, N, 1, N))
    settings = RunSettings(release, hosts=runner)
    return run_release(ThresholdsStatistic(curves, choice), source, settings, out, lambda _: None)


def call(directory: Path, **given: str | bool) -> None:
    chosen: dict[str, str | bool] = {**asdict(ODDS), "tolerance": "0", "curves": str(directory)}
    releasing(RELEASES["thresholds"](**{**chosen, **given}))


@pytest.mark.parametrize("spec", [PI_ROC, PI_ROC_RECORDS], ids=lambda spec: spec.name)
def test_the_same_choice_gives_the_same_files(spec: ProtocolSpec, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", spec=spec)
    write_again(tmp_path / "again", read_curves(tmp_path / "run"), ODDS, "")
    for name in ("thresholds.json", "curves.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    again = read_json(tmp_path / "again" / "manifest.json")
    assert again["opened"] == OPENED_NOTHING and again["ledger"] is None
    assert again["privacy"] == as_json(run.manifest.privacy)
    assert run.manifest.inputs.records is UNSET  # of which each is a key: a client's would show
    assert "number of records of each upload" not in run.manifest.privacy.public
    assert again["curves_of"] == {"run": str(tmp_path / "run"), "manifest": as_json(run.manifest)}
    assert not {"mpc_s", "rounds", "sent_bytes", "program_hash", "engine"} & set(again)


def test_another_choice_is_what_a_run_would_have_chosen_on_these_counts(tmp_path: Path) -> None:
    a_run(tmp_path / "run")
    a_run(tmp_path / "other", PARITY, "no")
    released = read_curves(tmp_path / "run")
    write_again(tmp_path / "again", released, PARITY, "no")
    for name in ("thresholds.json", "curves.json"):
        assert read_json(tmp_path / "again" / name) == read_json(tmp_path / "other" / name)
    assert GroupThresholdPredictor.load(tmp_path / "again").positive_label == "no"
    exact = exact_curves(LABEL == 0, SCORE, np.array(["a", "b"])[GROUP], ("a", "b"), GRID)
    np.testing.assert_allclose(
        np.diff(released.curves.for_positive("no").curves.tp), np.diff(exact.tp), atol=1
    )


def test_a_choice_on_a_choice_is_of_the_run_that_opened_the_curves(tmp_path: Path) -> None:
    a_run(tmp_path / "run")
    write_again(tmp_path / "first", read_curves(tmp_path / "run"), PARITY, "no")
    write_again(tmp_path / "second", read_curves(tmp_path / "first"), ODDS, "yes")
    first, second = (read_json(tmp_path / name / "manifest.json") for name in ("first", "second"))
    assert second["curves_of"] == first["curves_of"]
    for name in ("thresholds.json", "curves.json"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_curves_that_allow_nothing_leave_nothing(tmp_path: Path) -> None:
    a_run(tmp_path / "run")
    released, strict = read_curves(tmp_path / "run"), replace(ODDS, deterministic=True)
    with pytest.raises(
        InfeasibleError, match=r"choosing again on the same curves \(--curves\) costs no epsilon"
    ):
        write_again(tmp_path / "again", released, strict, "")
    with pytest.raises(RecordDomainError, match=r"'maybe' is not declared \(declared: no, yes\)"):
        write_again(tmp_path / "again", released, ODDS, "maybe")
    assert not (tmp_path / "again").exists()


def changed(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        for step in path[:-1]:
            fields = fields[step]  # type: ignore[index]
        if to is None:
            del fields[path[-1]]  # type: ignore[arg-type]
        else:
            fields[path[-1]] = to  # type: ignore[index]

    return change


NOT_AS_WRITTEN = "are not as this version writes them|is not the (manifest|curves).json of a run"
DAMAGED = {
    "a field less": ("curves", changed("negative_label", to=None), NOT_AS_WRITTEN),
    "schema": ("curves", changed("schema", to=2), "has schema 2; this version reads schema 1"),
    "shape": ("curves", changed("true_positives", 0, 0, to=None), NOT_AS_WRITTEN),
    "total": ("curves", changed("positives", 0, to=1.0), NOT_AS_WRITTEN),
    "text": ("curves", changed("negatives", 1, to="12"), NOT_AS_WRITTEN),
    "infinite": (
        "curves",
        changed("false_positives", 0, 3, to=float("inf")),
        "it has Infinity, which is no number",
    ),
    "huge": ("curves", changed("false_positives", 0, 3, to=10**400), "a number of more than 100 digits"),
    "grid": ("curves", changed("thresholds", 1, to=0.95), NOT_AS_WRITTEN),
    "groups": ("curves", changed("groups", to=["a", "a"]), NOT_AS_WRITTEN),
    "labels": ("curves", changed("negative_label", to="yes"), NOT_AS_WRITTEN),
    "coins": ("curves", changed("coins", 0, 0, to=3), NOT_AS_WRITTEN),
    "coin for zero": ("curves", changed("nonzero_coin", 0, to=1), NOT_AS_WRITTEN),
    "no coin for zero": ("curves", changed("nonzero_coin", to=None), NOT_AS_WRITTEN),
    "no coins": ("curves", changed("coins", to=7), NOT_AS_WRITTEN),
    "blocks": ("curves", changed("blocks", to=[1, 3, 7]), NOT_AS_WRITTEN),
    "error": ("curves", changed("standard_error", 2, to=0.1), NOT_AS_WRITTEN),
    "privacy": ("curves", changed("privacy", "epsilon_exact", to="1/2"), NOT_AS_WRITTEN),
    "privacy of the run": ("manifest", changed("privacy", "epsilon_exact", to="1/2"), NOT_AS_WRITTEN),
    "no privacy": ("manifest", changed("privacy", to=None), NOT_AS_WRITTEN),
    "cap": ("manifest", changed("privacy", "cap", to="weight-one"), NOT_AS_WRITTEN),
    "security": ("manifest", changed("security", to="x"), NOT_AS_WRITTEN),
    "origin": ("manifest", changed("curves_of", to=[]), NOT_AS_WRITTEN),
    "task": ("manifest", changed("task", to="weights"), "is the result of 'weights'; --curves takes that of"),
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("intact") / "run"
    a_run(directory)
    return directory


@pytest.mark.parametrize(("name", "change", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(
    name: str, change: Callable[[dict[str, Any]], None], message: str, intact: Path, tmp_path: Path
) -> None:
    files = {stem: read_json(intact / f"{stem}.json") for stem in ("curves", "manifest")}
    change(files[name])
    for stem, fields in files.items():
        (tmp_path / f"{stem}.json").write_text(json.dumps(fields))
    with pytest.raises(ResultFileError, match=message):
        read_curves(tmp_path)


@pytest.mark.parametrize(
    ("field", "stated"),
    [
        ("end_to_end", "It holds end to end."),
        ("epsilon", 19.5),
        ("mpc_statistical_security_bits", 60),
        ("made_ahead", False),
        ("distribution", "laplace"),
    ],
)
def test_what_no_run_states_is_refused_although_both_files_say_it(
    field: str, stated: Any, intact: Path, tmp_path: Path
) -> None:
    """What follows from other fields of a statement is worked out again, and compared."""
    for stem in ("curves", "manifest"):
        fields = read_json(intact / f"{stem}.json")
        fields["privacy"][field] = stated
        (tmp_path / f"{stem}.json").write_text(json.dumps(fields))
    with pytest.raises(ResultFileError, match=NOT_AS_WRITTEN):
        read_curves(tmp_path)


def test_fields_of_later_versions_are_ignored(intact: Path, tmp_path: Path) -> None:
    """Within 1.x files may get further fields."""
    for stem in ("curves", "manifest"):
        fields = read_json(intact / f"{stem}.json")
        (tmp_path / f"{stem}.json").write_text(
            json.dumps({**fields, "later": 1, "privacy": {**fields["privacy"], "later": 2}})
        )
    assert read_curves(tmp_path).curves.file(PRIVACY) == read_curves(intact).curves.file(PRIVACY)


@pytest.mark.parametrize("name", ["curves.json", "manifest.json"])
def test_missing_and_broken_files(name: str, intact: Path, tmp_path: Path) -> None:
    for path in intact.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text("{")
    with pytest.raises(ResultFileError, match=f"{name} is not the {name} of a run: it is not JSON"):
        read_curves(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ResultFileError, match=rf"Cannot read .*{name}: No such file"):
        read_curves(tmp_path)


OF_BOTH = {"constraint", "objective", "tolerance", "deterministic", "positive_label", "curves", "out", "json"}
OF_BOTH |= {"verbose", "quiet", "plot"}


@pytest.mark.parametrize("name", sorted(RELEASES["thresholds"].declared.keys() - OF_BOTH))
def test_options_of_a_new_run_are_refused(name: str) -> None:
    said = f"^--{name.replace('_', '-')} is for a new run, and --curves for what earlier runs revealed"
    with pytest.raises(OptionError, match=said):
        RELEASES["thresholds"](curves="run", **{name: "x"})


def test_the_command_says_what_it_did_not_do(
    intact: Path, in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No ledger is opened, nor made where there is none."""
    monkeypatch.setenv("FAIRSHARES_LEDGER", str(in_tmp / "ledger.sqlite"))
    call(intact, out="again")
    shown = " ".join(capsys.readouterr().out.split())
    assert "This choice revealed nothing new and spent no ε, so no ledger is charged." in shown
    assert "Guarantee: ε = " in shown and shown.endswith("Results: again")
    assert [path.name for path in in_tmp.iterdir()] == ["again"]
    assert "costs no ε: ./inv thresholds --curves runs/thresholds-x" in another_choice(
        Path("runs/thresholds-x")
    )
