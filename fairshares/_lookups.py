"""Calls that release nothing: what a release would cost, what was spent, and what was found before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fairshares._calls import Budget, Number, Records, Shares
    from fairshares._shown import Plan, Spent
    from fairshares._types import Relation, Security, Unit


def plan(
    *,
    epsilon: Number,
    clients: int | None = None,
    groups: Shares | None = None,
    from_records: Records = None,
    task: str = "weights",
    records: int | None = None,
    labels: Shares | None = None,
    delta: Number = "2^-40",
    max_count: int | None = None,
    privacy_unit: Unit = "record",
    cap: int | str | None = None,
    neighboring_relation: Relation | None = None,
    security: Security | None = None,
    network: str | None = None,
    error: float | None = None,
    **of_the_task: Any,
) -> Plan:
    """Say what a release would cost in each model, and how far off it would be; nothing is run.

        >>> import fairshares as fs
        >>> found = fs.plan(clients=10_000, groups={"a": 0.7, "b": 0.3}, epsilon=1, network="wan")
        >>> found.models.loc["ring", ["mpc_s", "sent_bytes"]].gt(0).all().item()
        True

    Args:
        epsilon, delta, max_count, privacy_unit, cap, neighboring_relation, security: as for the release.
        clients, records: how many there would be; records: default: one each.
        from_records: instead of these, groups and labels: a table or a file, to see whether its smallest
            group survives the noise. What is said then is not protected.
        groups, labels: how many, their names, or names with shares that add up to 1; labels: 2 by default.
        task: "weights", "confusion", "thresholds", "gap", "count" or "cap".
        network: "lan", "wan", or a round-trip time and a bandwidth, as "40ms,100Mbit"; None: one machine.
        error: between 0 and 1; what it takes for that is said, too.
        of_the_task: what `fairshares weights --help`, say, lists of that task, as reweighing="label", but for
            what a run alone has, as out; and columns of `from_records`, as group="race".
    Returns: figures by model, and what is expected of the release.
    Raises: FairSharesError: there is no such release.
    """
    given = {**locals(), **of_the_task}
    del given["of_the_task"]
    from fairshares._run import planned

    return planned(**given)


def preprocess(
    task: str = "weights",
    runs: int = 1,
    *,
    epsilon: Number,
    stock: Path | str | None = None,
    **of_the_task: Any,
) -> pd.DataFrame:
    """Make the joint noise of later calls, which take it by `offline=True` and are then as fast as a message.

        >>> import fairshares as fs
        >>> declared = dict(epsilon=10, groups=["a", "b"], labels=[0, 1], security="mpyc", stock="noise")
        >>> len(fs.preprocess("weights", 2, **declared))
        2

    Args:
        task: "weights", "confusion", "thresholds", "gap", "count" or "train".
        runs: how many calls it is for; each uses its noise once.
        epsilon: of each call; `of_the_task` has its other arguments, as delta and security.
        stock: the directory that the noise is kept in; default: stock, beside the ledger.
        of_the_task: groups and labels, or a domain, have to be declared.
    Returns: a row for each piece: mpc_s, sent_bytes and attempts.
    Raises: FairSharesError: the release takes no such noise, or the parties failed.
    """
    from fairshares._run import preprocessed

    return preprocessed(task, runs, epsilon=epsilon, stock=stock, **of_the_task)


def ledger(
    population: str | None = None,
    *,
    budget: Budget = None,
    retire: str | None = None,
    ledger: Path | str | None = None,
) -> Spent:
    """Say what each population's runs have spent, give one a budget, or retire one.

        >>> import fairshares as fs
        >>> fs.ledger("loans", budget=3, ledger="my-ledger.sqlite").charges.empty
        True

    Args: population: the one to show; None: all; budget: gives it this one: a total ε, or (ε, δ); retire: one
    that calls without a name are no longer asked about; ledger: the file; default: as for the command.
    Returns: a table of what was charged. Raises: PopulationError: there is no such population; LedgerError.
    """
    from fairshares._run import spent

    return spent(population=population, budget=budget, retire=retire, ledger=ledger)


def load(directory: Path | str, *others: Path | str) -> Any:
    """Read what a call has saved, or a command has written into its directory.

    Args: directory: of a run of weights, confusion, thresholds, gap, count, cap or train; others: of further
    runs of its chain of weights, whose counts are added up.
    Returns: what that call returned. Raises: ResultFileError: it is of something else, or damaged.
    """
    if others:
        from fairshares._run import added_up

        return added_up(*map(Path, (directory, *others)))
    from fairshares import _results

    return _results.load(Path(directory))
