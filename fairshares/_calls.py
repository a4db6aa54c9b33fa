"""The calls and their arguments. Dependencies are imported when a call is made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fairshares._arguments import (
        Budget,
        Column,
        Domain,
        Features,
        Records,
    )
    from fairshares._results import (
        CapResult,
        ConfusionResult,
        CountResult,
        GapResult,
        ThresholdsResult,
        TrainResult,
        WeightsResult,
    )
    from fairshares._types import (
        ConstraintName,
        NoiseFamilyName,
        NoiseKind,
        Objective,
        Relation,
        Reweighing,
        Security,
        Unit,
        UnitOfRecords,
    )
    from fairshares.harness.training.session import Number


def weights(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    reweighing: Reweighing = "kamiran-calders",
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    shares: Path | str | None = None,
    chain: str | None = None,
    noise: NoiseKind = "joint",
    noise_family: NoiseFamilyName = "by-epsilon",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    parties: int | None = None,
    population: str | None = None,
    budget: Budget = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    timeout: float = 600,
) -> WeightsResult:
    """Compute DP sample weights per group and label (π_RW).

    A weight is c(s)·c(y) / (N·c(s, y)) for noisy counts c of at least 1 and their sum N. Group and label are
    independent in the weighted records.

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
        records: A data frame of pandas, Polars, PyArrow, DuckDB, PySpark or Dask with a row per record, or
            the path of a CSV or Parquet file, directory or glob. None: all columns are given by name.
        epsilon: ε of the whole call, above 0 and at most 20.
        client_id: Values of shape (n,), or the name of another column. Without client_id each row is a client
            of its own.
        group: As client_id. 1, 1.0 and "1" are the same; results have the values' dtype. Several columns, by
            name or as values of shape (n, k), make a group of each combination, such as "black & f".
        label: As client_id. 1, 1.0 and "1" are the same; results have the values' dtype.
        reweighing: "kamiran-calders" narrows gaps. "balanced", by which all pairs of group and label weigh
            the same, and "label" find rare labels and may widen gaps.
        groups: All groups. None: they are read off the records, and which occur is not protected.
        labels: All labels. None: they are read off the records, and which occur is not protected.
        domain: A dict or a JSON file with groups, labels, max_count and, for score curves, thresholds.
        max_count: The most records of a client, at least 1. None: it is read off the records, and is not
            protected.
        delta: δ of the whole call, above 0 and below 1; a text such as "2^-40" or "1e-9" is exact.
        privacy_unit: What is protected: a "record", or a "client" with all of its records.
        cap: How many records of a client count if clients are protected: a number, "weight-one" (all, with
            the total weight of one record), or "auto", which spends `cap_epsilon` on the choice.
        cap_epsilon: The ε for `cap="auto"`; default: a fifth of epsilon.
        neighboring_relation: "add_or_remove_one" or "replace_one". None: the relation of the population's
            first run, else "replace_one" where a client has one record, as without client_id or with
            max_count=1.
        shares: The directory in which uploads arrive, instead of records.
        chain: A name. Calls of one chain count new uploads each, and spend ε once together if clients share
            each record once. `load` adds up their results.
        noise: "joint", which nobody knows; or "distributed" or "distributed-gaussian", each party's own: much
            faster, with larger errors, and a party that deviates can shift the result unnoticed.
        noise_family: Of joint noise: "by-epsilon", the smaller one; or "signed", as version 1.0 had it, for
            runs that go on with a chain or a declared number of runs that it began.
        offline: Whether to take noise that `preprocess` made.
        stock: The directory of that noise; default: stock, beside the ledger.
        security: A model that `fairshares security` lists; default: ring where MP-SPDZ is found, else mpyc.
        parties: How many parties compute, in "semi2k", "spdz2k" (2 to 16), "shamir", "mpyc" (3 to 16) and
            "malicious-shamir" (3, 5, .., 15). None: the model's usual number.
        population: Whose records these are, a name, which is charged; "none": nobody counts.
        budget: The population's total ε, or (ε, δ). Runs beyond it are refused.
        ledger: The file of charges; default: as for the command.
        out: A new directory for the result's files. None: `save` writes them.
        timeout: Seconds that the parties may take.
    Returns:
        Weights, intervals and noisy counts by (group, label).
    Raises:
        FairSharesError: A subclass for each mistake, whose message says what to do.
    """
    given = locals()
    from fairshares._run import released

    return released("weights", **given)


def thresholds(
    records: Records = None,
    *,
    epsilon: Number,
    client_id: Column = None,
    group: Column = None,
    label: Column = None,
    score: Column = None,
    thresholds: int | Sequence[float] | None = None,
    positive_label: Hashable = None,
    constraint: ConstraintName = "equalized_odds",
    objective: Objective = "accuracy_score",
    tolerance: float | None = None,
    deterministic: bool = False,
    variant: Literal["histogram", "records"] = "histogram",
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    noise: NoiseKind = "joint",
    noise_family: NoiseFamilyName = "by-epsilon",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    parties: int | None = None,
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

    Args: as in `weights`, and
        score: From 0 to 1, of records that the model was *not* trained on. With more than two labels: a
            column `score_` and the label for each.
        thresholds: The thresholds among which rules choose, or how many, evenly from 0 to 1. None: the
            thresholds of `domain`, else 101. More take longer and have more noise.
        positive_label: The label that a high score speaks for. None: the last in order; ordered
            categories have an order of their own.
        constraint: The rates that are alike for all groups: "equalized_odds", "equal_opportunity",
            "false_positive_rate_parity" or "demographic_parity"; "four_fifths", where the smallest selection
            rate is at least four fifths of the largest; "accuracy_parity"; or "predictive_parity", where as
            many of the accepted are positive, and each group has one threshold.
        objective: The measure that rules maximize: "accuracy_score" or "balanced_accuracy_score".
        tolerance: The largest difference between groups in these rates, from 0 to 1. None: 0, or the least
            that can be reached if deterministic. Of "four_fifths" it is the share by which a rate may fall
            short of the largest, and None is 0.2.
        deterministic: Whether each group has one threshold, and none is drawn.
        variant: "histogram", or "records", where no client can exceed its cap (models of MP-SPDZ).
    Returns:
        Curves, rules and a predictor. If the curves allow no rules, `problem` says why: their ε is spent.
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import released

    return released("thresholds", **given)


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
    positive_label: Hashable = None,
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    cap_epsilon: Number | None = None,
    neighboring_relation: Relation | None = None,
    noise: NoiseKind = "joint",
    noise_family: NoiseFamilyName = "by-epsilon",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    parties: int | None = None,
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

    Args: as in `weights`, and
        prediction: A label for each row. Or give score and threshold.
        score: From 0 to 1, for each row.
        threshold: The positive label is predicted from this score on.
        positive_label: Whose rates are printed, too. None: the last in order; of more than two, each label.
    Returns:
        Counts by (group, label, prediction); rates and their intervals by (group, label).
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import released

    return released("confusion", **given)


def gap(
    records: Records = None,
    *,
    epsilon: Number,
    range: tuple[float, float],
    client_id: Column = None,
    group: Column = None,
    value: Column = None,
    steps: int | None = None,
    groups: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    delta: Number = "2^-40",
    privacy_unit: Unit = "record",
    neighboring_relation: Relation | None = None,
    noise: NoiseKind = "joint",
    noise_family: NoiseFamilyName = "by-epsilon",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    parties: int | None = None,
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

    Args: as in `weights`, and
        value: How well the model works for the client: a number, a fraction of counts as "17/20", or truth.
        range: The least and the largest possible value, declared.
        steps: Values are rounded to so many steps on each side of the range's center; default: 1000.
    Returns:
        Gaps by pair of groups, means and sizes by group.
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import released

    return released("gap", **given)


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
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    privacy_unit: UnitOfRecords = "record",
    neighboring_relation: Relation | None = None,
    security: Security | None = None,
    parties: int | None = None,
    noise_family: NoiseFamilyName = "by-epsilon",
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

    Args: as in `weights`, and
        relative_error: The expected error of a count as a share of it.
        error_from: The least count that keeps to `relative_error`, at least 1.
        error_to: The largest count that keeps to `relative_error`.
        privacy_unit: What is protected: a "record". "client" is refused.
    Returns:
        Counts and intervals by (group, label).
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import released

    return released("count", **given)


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
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    delta: Number = "2^-40",
    noise_family: NoiseFamilyName = "by-epsilon",
    security: Security | None = None,
    parties: int | None = None,
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

    Args: as in `weights`, and
        release: The release that the cap is for: "weights", "confusion", "thresholds" or "counts".
        release_epsilon: The ε of that release.
        variant: The variant of "thresholds", "histogram" or "records". None: "histogram".
        counts: The number of counts of records, if the release is "counts".
    Returns:
        The cap.
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import released

    return released("cap", **given)


def train(
    records: Records,
    *,
    features: Features | Path | str,
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
    constraint: ConstraintName = "equalized_odds",
    objective: Objective = "accuracy_score",
    positive_label: Hashable = None,
    groups: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    domain: Domain | Path | str | None = None,
    max_count: int | None = None,
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    neighboring_relation: Relation | None = None,
    noise: Literal["joint", "distributed"] = "joint",
    noise_family: NoiseFamilyName = "by-epsilon",
    offline: bool = False,
    stock: Path | str | None = None,
    security: Security | None = None,
    parties: int | None = None,
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

    Args: as in `weights` and `thresholds`, and
        records: Columns of group and label, and one for each feature.
        features: Ranges and categories by column, as {"age": {"low": 18, "high": 99}, "sector":
            {"categories": ["a", "b"]}}, or a JSON file of them. Nothing is read off the data. Truth is 1 or
            0; a warning says which values count as nothing, before epsilon is spent.
        with_: "weights" (of everybody), "thresholds" (of one client in four, which training does not see),
            and "fairgrad" (groups are weighed during training, by noisy counts of correct predictions).
        fairness: The aim of "fairgrad": "equalized_odds" (None), "equal_opportunity",
            "false_positive_rate_parity", "demographic_parity" or "accuracy_parity".
        rounds: The number of rounds of gradient descent, each a noisy sum of all updates.
        delta: The δ of the whole training, most of it for the model.
        weights_epsilon: The part of epsilon for the weights. None: a fifth.
        largest_weight: Larger weights count as this one; the noise grows by it. None: 2 with weights, 1.25
            with fairgrad, else 1.
        clip: The L2 norm to which a record's gradient is shortened, before it is weighed.
        learning_rate: The step of the descent. Tuning on these records spends budget each time.
        momentum: The momentum of the descent, from 0 to below 1. Tuning spends budget, too.
        neighboring_relation: "add_or_remove_one", or "replace_one", at about twice the noise. None: as in
            `weights`.
        noise: "joint" noise of all parties, or "distributed": each adds its own.
        offline: Whether to take noise that `preprocess` made, for the rounds and not for `with_`.
    Returns:
        The model, weights and thresholds, and the privacy of all together.
    Raises: as in `weights`.
    """
    given = locals()
    from fairshares._run import trained

    return trained(**given)
