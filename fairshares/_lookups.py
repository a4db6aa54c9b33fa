"""Calls that release nothing: plans, preprocessing, spent budgets, and earlier results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairshares.harness.errors import PYTHON, OptionError, named, naming
from fairshares.harness.system.files import as_path

if TYPE_CHECKING:
    import pandas as pd

    from fairshares._arguments import Argument, Budget, Records, Shares
    from fairshares._results import Released, TrainResult
    from fairshares._shown import Plan, Spent
    from fairshares._types import Relation, Security, Unit
    from fairshares.harness.training.session import Number


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
    parties: int | None = None,
    network: str | None = None,
    error: float | None = None,
    ledger: Path | str | None = None,
    **of_the_task: Argument,
) -> Plan:
    """Say what a release would cost in each model, and how far off it would be; nothing is run.

        >>> import fairshares as fs
        >>> found = fs.plan(clients=10_000, groups={"a": 0.7, "b": 0.3}, epsilon=1, network="wan")
        >>> found.models.loc["ring", ["mpc_s", "sent_bytes"]].gt(0).all().item()
        True

    Args: as for the release, and
        clients: The number of clients.
        groups: The number of groups, their names, or names with shares that add up to 1.
        from_records: A table or a file instead of clients, records, groups and labels, to see whether its
            smallest group survives the noise. The plan is then not protected.
        task: "weights", "confusion", "thresholds", "gap", "count" or "cap".
        records: The number of records. Default: one for each client.
        labels: As groups. Default: 2.
        network: "lan", "wan", or a round-trip time and a bandwidth, as "40ms,100Mbit". None: one machine.
        error: Between 0 and 1; the plan then says what this error takes, too.
        ledger: The file of charges, in which the plan looks up the task's `population`, if that is named.
        of_the_task: The task's other options, except the options of a run, and columns of `from_records`.
    Returns:
        Costs by model, and the expected error of the release.
    Raises:
        FairSharesError: There is no such release.
    """
    given = locals()
    further = given.pop("of_the_task")
    from fairshares._run import planned

    return planned(**further, **given)


def preprocess(
    task: str = "weights",
    runs: int = 1,
    *,
    epsilon: Number,
    stock: Path | str | None = None,
    **of_the_task: Argument,
) -> pd.DataFrame:
    """Make the joint noise of later calls, which take it by `offline=True` and are then as fast as a message.

        >>> import fairshares as fs
        >>> declared = dict(epsilon=10, groups=["a", "b"], labels=[0, 1], security="mpyc", stock="noise")
        >>> len(fs.preprocess("weights", 2, **declared))
        2

    Args:
        task: "weights", "confusion", "thresholds", "gap", "count" or "train".
        runs: The number of calls that the noise is for, from 1 to 1000; each call uses its noise once.
        epsilon: The ε of each call.
        stock: The directory in which the noise is kept; default: stock, beside the ledger.
        of_the_task: The call's other arguments. Groups and labels, or a domain, have to be declared.
    Returns:
        A row for each piece: mpc_s (seconds), sent_bytes (by each party) and attempts.
    Raises:
        FairSharesError: The release takes no such noise, or the parties failed.
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

    Args:
        population: The population to show. None: all.
        budget: The population's new total ε, or (ε, δ).
        retire: A population that calls without a name no longer ask about.
        ledger: The file; default: as for the command.
    Returns:
        A table of charges.
    Raises:
        PopulationError: There is no such population.
        LedgerError: The ledger cannot be used.
    """
    from fairshares._run import spent

    return spent(population=population, budget=budget, retire=retire, ledger=ledger)


def load(
    directory: Path | str, *others: Path | str, fingerprints: Path | str | None = None
) -> Released | TrainResult:
    """Read a result that a call or a command has written.

    Args:
        directory: The directory of a run of a release, such as `weights`, or of `train`.
        others: Further runs of its chain of weights, whose counts are added up.
        fingerprints: With others, a file with the SHA-256 of each host's certificate, a line each, from the
            hosts' owners, party 0 first. The certificates of keys that they made later follow.
    Returns:
        The result of that call.
    Raises:
        OptionError: `fingerprints` goes without others, or holds none.
        ResultFileError: The files belong to something else, or are damaged.
        SignatureError: Hosts signed some of the runs only, or other hosts than those.
    """
    with naming(PYTHON):
        if others:
            from fairshares._run import added_up

            known = None if fingerprints is None else as_path(fingerprints, "fingerprints")
            directories = [as_path(directory, "directory")] + [as_path(other, "others") for other in others]
            return added_up(*directories, fingerprints=known)
        if fingerprints is not None:
            raise OptionError(f"{named('fingerprints')} goes with further runs, whose counts are added up.")
        from fairshares import _results

        return _results.load(as_path(directory, "directory"))
