"""The calls, and what each takes. What they need is imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy.typing as npt
    from narwhals.stable.v2.typing import IntoFrame

    from fairshares._results import (
        CapResult,
        ConfusionResult,
        CountResult,
        GapResult,
        ThresholdsResult,
        TrainResult,
        WeightsResult,
    )
    from fairshares._types import Constraint, Objective, Relation, Reweighing, Security, Unit

    Records = IntoFrame | Mapping[str, npt.ArrayLike] | Path | str | None
    Column = npt.ArrayLike | str | None
    Number = int | float | Fraction | str
    Budget = Number | tuple[Number, Number] | None
    Shares = int | Sequence[str] | Mapping[str, Number]


def weights(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    reweighing: Reweighing = "kamiran-calders",
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    shares: Path | str | None = None,
    chain: str | None = None,
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> WeightsResult:
    """Compute DP sample weights per group and label (π_RW).

    A weight is c(s)·c(y) / (N·c(s, y)) for noisy counts c of at least 1 and their sum N, so that group and
    label are independent in the weighted records; `reweighing` has other schemes.

        >>> import fairshares as fs
        >>> group, label = ["a", "b"] * 100, [0] * 100 + [1] * 100
        >>> r = fs.weights(client_id=range(200), group=group, label=label, epsilon=10, security="mpyc")
        >>> r.weights.index.tolist()
        [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
        >>> bool((abs(r.noisy_counts - 50) < 10).all())
        True
        >>> r.privacy.epsilon <= 10
        True
        >>> r.sample_weight(group, label).shape  # for model.fit(X, y, sample_weight=...)
        (200,)

    Args:
        records: a data frame with a row per record, of pandas, Polars, PyArrow, DuckDB, PySpark or Dask, or a
            path of CSV or Parquet: a file, directory or glob; other columns are ignored. None: all columns
            are given by name.
        epsilon, delta: what the call may spend, in total; ε above 0 and at most 20.
        client_id, group, label: values, shape (n,), or the name of another column of `records`. They are
            taken as they would stand in a file: 1, 1.0 and "1" are the same label; results have their dtypes.
            Without client_id each row is a client of its own, and the result says what that means.
        reweighing: "kamiran-calders" narrows gaps; "balanced", by which all pairs of group and label weigh
            the same, and "label" find rare labels, and may widen gaps. All from the same noisy counts.
        groups, labels, max_count: all that there are, and the most records of a client, declared; else they
            are read off the records, and which occur is not protected. `domain`: a dict or a JSON file with
            all that, and maybe thresholds.
        privacy_unit: what is protected: a "record", or a "client", all of its records together, of which
            `cap` count: a number, "weight-one", or "auto", which spends `cap_epsilon` (a fifth of ε) on it.
        neighboring_relation: "add_or_remove_one", or "replace_one", the default where max_count is 1.
        shares: instead of records: the directory in which uploads arrive. chain: a name of your choice; calls
            that have it count new uploads each, and spend ε once together, if clients share each record once.
            `load` adds up their results.
        offline, stock: whether to take noise that `preprocess` made, and the directory that it is in.
        security: one that `fairshares security` lists; default: ring where MP-SPDZ is found, else mpyc.
        population: whose records these are, a name of your choice, which is charged; "none": nobody counts.
        budget: the population's total ε, or (ε, δ); runs beyond it are refused.
        ledger: the file in which it is charged; default: as for the command.
        out: a new directory for the result's files, which a ledger names; None: `save` writes them.
        timeout: seconds that the parties may take.
    Returns: weights, intervals and noisy counts by (group, label).
    Raises: FairSharesError: a subclass for each mistake; the message has the value, and the way out.
    """
    return _released("weights", locals())


def thresholds(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    score: Column = None,
    thresholds: int | Sequence[float] | None = None,
    positive_label: Any = None,
    constraint: Constraint = "equalized_odds",
    objective: Objective = "accuracy_score",
    tolerance: float | None = None,
    deterministic: bool = False,
    variant: Literal["histogram", "records"] = "histogram",
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> ThresholdsResult:
    """Compute DP score curves per group, and decision rules that treat groups alike (π_ROC).

        >>> import fairshares as fs
        >>> import pandas as pd
        >>> df = pd.DataFrame({"group": ["a", "b"] * 200, "label": [0, 0, 1, 1] * 100})
        >>> df["client_id"], df["score"] = df.index, 0.2 + 0.6 * df.label
        >>> t = fs.thresholds(df, epsilon=20, positive_label=1, security="mpyc")
        >>> t.predictor().predict([0.1, 0.9], sensitive_features=["a", "b"]).tolist()
        [0, 1]
        >>> t.rates.columns.tolist()
        ['true_positive_rate', 'false_positive_rate', 'selection_rate']

    Args: as `weights`, and
        score: from 0 to 1, of records that the model was *not* trained on; of more than two labels, columns
            `score_` and the label.
        thresholds: among which rules choose: how many, evenly from 0 to 1, or these; None: 101, unless
            `domain` has them. More take longer and have more noise.
        positive_label: what a high score speaks for; None: the label that is last in order.
        constraint: alike for all groups: "equalized_odds", "equal_opportunity", "false_positive_rate_parity"
            or "demographic_parity".
        objective: what is best under it: "accuracy_score" or "balanced_accuracy_score".
        tolerance: the largest difference between groups in what is to be alike, from 0 to 1; None: 0, or, if
            deterministic, the least that can be reached.
        deterministic: one threshold per group, none drawn.
        variant: "histogram"; or "records", of which no client can exceed its cap (models of MP-SPDZ).
    Returns: curves, rules and a predictor. Where the curves allow no rules, they are returned without, and
    `problem` says why: their ε is spent.
    Raises: as `weights`.
    """
    return _released("thresholds", locals())


def confusion(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    prediction: Column = None,
    score: Column = None,
    threshold: float | None = None,
    positive_label: Any = None,
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> ConfusionResult:
    """Compute a DP confusion matrix per group (π_CF), and rates with intervals.

        >>> import fairshares as fs
        >>> label, predicted = [0, 0, 1, 1] * 100, [0, 1, 1, 1] * 100
        >>> df = dict(client_id=range(400), group=["a", "b"] * 200, label=label, prediction=predicted)
        >>> r = fs.confusion(df, epsilon=20, security="mpyc")
        >>> r.rates.loc[("b", 1), "false_positive_rate"].round(1).item()
        1.0

    Args: as `weights`, and
        prediction: a label; or, with `threshold`,
        score, threshold: the positive label is predicted from this score on, from 0 to 1.
        positive_label: whose rates are printed, too; None: the label that is last in order or, of more
            than two labels, each one's.
    Returns: counts by (group, label, prediction), rates and their intervals by (group, label).
    Raises: as `weights`.
    """
    return _released("confusion", locals())


def gap(
    records: Records = None,
    *,
    epsilon: Number,
    range: tuple[float, float],
    client_id: Column = None,
    group: Column = None,
    value: Column = None,
    steps: int | None = None,
    groups: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    neighboring_relation: Relation | None = None,
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> GapResult:
    """Compute DP gaps between groups' mean performance, one value per client (π_GAP).

        >>> import fairshares as fs
        >>> df = dict(client_id=range(400), group=["a", "b"] * 200, value=[0.9, 0.7] * 200)
        >>> r = fs.gap(df, epsilon=20, groups=["a", "b"], range=(0, 1), security="mpyc")
        >>> abs(r.gaps.loc[("a", "b"), "gap"].item() - 0.2) < 0.1
        True

    Args: as `weights`, and
        value: how well the model works for the client: a number, a fraction of counts as "17/20", or truth.
        range: the ends of the range that values may have, declared.
        steps: values are rounded to so many on each side of the range's center; default: 1000.
    Returns: gaps by pair of groups, means and sizes by group.
    Raises: as `weights`.
    """
    return _released("gap", locals())


def count(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    relative_error: float = 0.1,
    error_from: int = 100,
    error_to: int = 1048576,
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    neighboring_relation: Relation | None = None,
    security: Security | None = None,
    offline: bool = False,
    stock: Path | str | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> CountResult:
    """Count records per group and label, with more privacy for larger groups (π_COUNT).

        >>> import fairshares as fs
        >>> df = dict(client_id=range(800), group=["a", "b"] * 400, label=[0] * 400 + [1] * 400)
        >>> r = fs.count(df, epsilon=10, security="mpyc")
        >>> bool((abs(r.counts / 200 - 1) < 0.9).all())
        True

    Args: as `weights`, and
        relative_error: of counts, on average, that is kept to for counts from `error_from` to `error_to`.
    Returns: counts and intervals by (group, label).
    Raises: as `weights`.
    """
    return _released("count", locals())


def cap(
    records: Records = None,
    *,
    epsilon: Number,
    release_epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    release: str = "weights",
    counts: int | None = None,
    variant: str | None = None,
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> CapResult:
    """Choose how many records of a client are to count, with differential privacy (π_CAP).

        >>> import fairshares as fs
        >>> df = dict(client_id=[*range(300)] * 2, group=["a", "b"] * 300, label=[0, 0, 1, 1] * 150)
        >>> r = fs.cap(df, epsilon=10, release_epsilon=1, max_count=10, security="mpyc")
        >>> 1 <= r.cap <= 10
        True

    Args: as `weights`, and
        release, release_epsilon: what the cap is for, "weights", "confusion", "thresholds" (by `variant`)
            or "counts" (so many, of records), and its ε.
    Returns: the cap.
    Raises: as `weights`.
    """
    return _released("cap", locals())


def train(
    records: Records,
    *,
    features: Mapping[str, Any] | Path | str,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    with_: Sequence[str] | None = None,
    fairness: str | None = None,
    rounds: int = 40,
    delta: Number = "1e-5",
    weights_epsilon: Number | None = None,
    largest_weight: float | None = None,
    clip: float = 1,
    learning_rate: float = 1,
    momentum: float = 0.9,
    reweighing: Reweighing = "kamiran-calders",
    constraint: Constraint = "equalized_odds",
    objective: Objective = "accuracy_score",
    positive_label: Any = None,
    groups: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    domain: Mapping[str, Any] | Path | str | None = None,
    max_count: int | None = None,
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    noise: Literal["joint", "distributed"] = "joint",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> TrainResult:
    """Train logistic regression under differential privacy, with weights and thresholds on the same budget.

        >>> import fairshares as fs
        >>> import pandas as pd
        >>> df = pd.DataFrame({"client_id": range(200), "group": ["a", "b"] * 100})
        >>> df["label"] = df["x"] = [0, 0, 1, 1] * 50
        >>> r = fs.train(df, features={"x": {"low": 0, "high": 1}}, epsilon=20, rounds=5, security="mpyc")
        >>> r.model.predict(pd.DataFrame({"x": [0, 1]})).tolist()
        [0, 1]

    Args: as `weights`, and
        records: has columns of group and label, and one for each feature.
        features: ranges and categories by column, {"age": {"low": 18, "high": 99}, "sector": {"categories":
            ["a", "b"]}}, or a JSON file of them. Nothing is read off the data.
        with_: "weights" (of everybody), "thresholds" (of one client in four, which training does not see),
            "fairgrad": groups are weighed while the model is trained, by noisy counts of what it gets right.
        fairness: of "fairgrad": "equalized_odds" (None is that), "equal_opportunity",
            "false_positive_rate_parity", "demographic_parity" or "accuracy_parity".
        rounds: of gradient descent, each a noisy sum of all updates.
        delta: of all together; mostly the model's.
        weights_epsilon: the weights' part of epsilon; None: a fifth.
        largest_weight: larger ones count as this; the noise grows by it; None: 2 with weights, 1.25 with
            fairgrad, else 1.
        clip: the L2 norm to which a record's gradient is shortened, before it is weighed.
        learning_rate, momentum: of the descent. Whatever is tuned on these records spends budget each time.
        constraint, objective, positive_label: of thresholds, as `thresholds`; the label also of fairness.
        offline: for the rounds' noise, not for what `with_` adds.
    Returns: the model, weights and thresholds, and the privacy of all together.
    Raises: as `weights`.
    """
    given = locals()
    from fairshares._run import trained

    return trained(**given)


def _released(task: str, given: dict[str, Any]) -> Any:
    from fairshares._run import released

    return released(task, **given)
