"""The commands: `./inv --list` names them, `./inv --help COMMAND` explains one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from invoke import Collection, Context

from benchmarks.commands.bench_tasks import bench
from benchmarks.commands.reproduce_tasks import reproduce
from harness.cli.commands.audit_tasks import audit, noise  # noqa: F401  (commands by being here)
from harness.cli.commands.hosts_tasks import hosts
from harness.cli.commands.plan_task import plan  # noqa: F401
from harness.cli.tasking import (
    CAP_HELP,
    CHOSEN_CAP_HELP,
    DOMAIN_HELP,
    ERROR_HELP,
    ERROR_TARGET,
    LEDGER_HELP,
    RECORDS,
    RELEASE_HELP,
    RELEASE_OF_CAP_HELP,
    VALUES_HELP,
    releasing,
)
from harness.cli.tasking import by_name as _task

if TYPE_CHECKING:
    from harness.cli.commands.release import ReleaseOptions

# What a command needs is imported when it runs, so that each starts fast.


@_task(help={name: RELEASE_HELP[name] for name in ("model", "epsilon", "out")})
def quickstart(_c: Context, model: str = "", epsilon: str = "4", out: str = "") -> None:
    """Run the main job on real data: DP weights and thresholds from secret shares, before and after."""
    from harness.cli.commands.quickstart import quickstart

    quickstart(model, epsilon, out)


@_task(help={"json": "print JSON"})
def schemes(_c: Context, json: bool = False) -> None:
    """Say which models can run here, on which engine, and why one cannot."""
    from harness.views.weights import schemes

    schemes(json)


@_task(
    help={
        **DOMAIN_HELP,
        "out": "directory for one file per party",
        "task": "what the shares are for: weights (default), confusion (records also have a column "
        "prediction), thresholds (a column score), gap (columns client_id, group and value) or cap",
        **{name: f"with --task gap: {said}" for name, said in VALUES_HELP.items()},
        "threshold": "with --task confusion: predict the second label from this score on; a column score "
        "instead of prediction",
        "model": RELEASE_HELP["model"],
        "input-form": f"{RELEASE_HELP['input-form']}; for thresholds also keys (a key per record); with "
        "--cap slots (default for weights, confusion and gap)",
        **CAP_HELP,
    }
)
def share(
    _c: Context,
    records: str = "",
    out: str = "",
    domain: str = "",
    groups: str = "",
    labels: str = "",
    max_count: str = "",
    task: str = "weights",
    model: str = "",
    input_form: str = "",
    threshold: str = "",
    range: str = "",
    steps: str = "",
    cap: str = "",
) -> None:
    """Split records into shares: a client's step, one file per party."""
    from harness.cli.commands.inputs import share

    declared = (domain, groups, labels, max_count)
    share(records, out, task, declared, model, input_form, threshold, (range, steps), cap)


@_task(
    help={
        "party": "number of the party, from 0",
        "shares": "what `share` wrote",
        "domain": "the declared domain; uploads of another are not sound",
        "clients-per-upload": "how many clients an upload may be of; larger ones are not sound",
        "out": "the list to write, party-<i>.uploads; bring all parties' lists together",
    }
)
def uploads(
    _c: Context,
    party: str = "",
    shares: str = "",
    domain: str = "",
    clients_per_upload: str = "",
    out: str = "",
) -> None:
    """List which uploads one party has and which are sound, so that all take the same: a party's step."""
    from harness.cli.commands.inputs import uploads

    uploads(party, shares, domain, clients_per_upload, out)


@_task(
    help={
        "party": "number of the party, from 0",
        "shares": "what `share` wrote",
        "uploads": "directory with all parties' lists; only uploads that are sound at every party are taken",
        "out": "the file to write",
    }
)
def aggregate(_c: Context, party: str = "", shares: str = "", uploads: str = "", out: str = "") -> None:
    """Turn one party's shares into what it feeds into a run: a party's step."""
    from harness.cli.commands.inputs import aggregate

    aggregate(party, shares, uploads, out)


@_task(
    help={
        "records": RECORDS + " of one client",
        "invitation": "the file that this client was given; it holds where to send, and a key",
        "timeout": "seconds until all parties have to be there; default: 600",
        "epsilon": "the most that this client accepts; nothing is sent to a run that spends more",
        "fingerprints": "a file with the SHA-256 of each party's certificate, a line each, party 0 first; "
        "nothing is sent to parties with others",
    }
)
def send(
    _c: Context,
    records: str = "",
    invitation: str = "",
    timeout: str = "600",
    epsilon: str = "",
    fingerprints: str = "",
) -> None:
    """Show a run's terms, and send one client's values, masked, to its parties: a client's step."""
    from harness.cli.commands.inputs import send

    send(records, invitation, timeout, epsilon, fingerprints)


@releasing(
    {
        "shares": "instead of --records: what `share` or `aggregate` wrote",
        "reweighing": "balanced (default), label or kamiran-calders; all from the same noisy counts",
        "reveal": "counts (default) or weights: only they are opened; models of MP-SPDZ",
        "input-form": "split (default: counts per group and label), product (group indicator times label "
        "counts) or slots (default with --privacy-unit client: no client can exceed the cap)",
        "input-path": "shares (default), or clients: each sends while the parties run, and none of these can "
        "change its values; so active models take product",
        "invite": "instead of --records: a directory; each client takes an invitation there, and sends",
        "clients": "how many clients are invited",
        **CHOSEN_CAP_HELP,
    },
    input_form="",
    input_path="shares",
    invite="",
    clients="",
    cap="",
    cap_epsilon="",
)
def weights(options: ReleaseOptions, reweighing: str = "balanced", reveal: str = "counts") -> None:
    """Compute DP sample weights per group and label (π_RW)."""
    from harness.cli.commands.weights import weights

    weights(options, reweighing, reveal)


@releasing(
    {
        "records": f"{RECORDS}, prediction (a label); with --threshold: score",
        "shares": "instead of --records: what `share --task confusion` or `aggregate` wrote",
        "threshold": "predict the second label from this score on",
        "input-form": "split (default: counts per group, label and prediction), product (indicators of each "
        "record) or slots (default with --privacy-unit client: no client can exceed the cap)",
        **CHOSEN_CAP_HELP,
    },
    input_form="",
    cap="",
    cap_epsilon="",
)
def confusion(options: ReleaseOptions, threshold: str = "") -> None:
    """Compute a DP confusion matrix per group (π_CF)."""
    from harness.cli.commands.confusion import confusion

    confusion(options, threshold)


@releasing(
    {
        "records": f"{RECORDS}, score (from 0 to 1, of records that the model was not trained on)",
        "shares": "instead of --records: what `share --task thresholds` or `aggregate` wrote",
        "variant": "histogram (default: clients count their records per bin of scores), records (a key per "
        "record, which the parties count; not with mpyc) or published (to compare: ε once per threshold)",
        "input-form": "what follows from --variant: split, keys or scores",
        "constraint": "what is alike for all groups: equalized_odds (default), equal_opportunity or "
        "demographic_parity",
        "objective": "what is best under it: accuracy_score (default) or balanced_accuracy_score",
        "tolerance": "largest difference between groups in what is to be alike; default: 0",
        "deterministic": "one threshold per group, no randomisation; most often needs a tolerance",
        "positive-label": "the label that counts as positive; default: the last in order",
        "blocks": "tree (default: the blocks of bins with the least error) or flat (bins only)",
        "curves": "results of an earlier run, to choose on their curves again for no ε, instead of --records",
        **CHOSEN_CAP_HELP,
    },
    input_form="",
    cap="",
    cap_epsilon="",
)
def thresholds(
    options: ReleaseOptions,
    variant: str = "histogram",
    constraint: str = "equalized_odds",
    objective: str = "accuracy_score",
    tolerance: str = "0",
    deterministic: bool = False,
    positive_label: str = "",
    blocks: str = "tree",
    curves: str = "",
) -> None:
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""
    from harness.cli.commands.thresholds import thresholds

    chosen = (constraint, objective, tolerance, deterministic, positive_label)
    thresholds(options, variant, *chosen, blocks, curves)


@releasing(
    {
        **VALUES_HELP,
        "records": "CSV or Parquet with client_id, group, value; a number, or a fraction of counts as 17/20",
        "shares": "instead of --records: what `share --task gap` or `aggregate` wrote",
        "domain": 'JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps optional',
        "groups": "all groups, for example a,b; with --range, instead of --domain",
        "neighboring-relation": "replace_one (default: a client's group and value) or add_or_remove_one",
        "privacy-unit": "record (default: a client's value replaced or removed), or client (all it sends, "
        "there or not)",
        "input-form": "split (default: the value and the size, in the client's group) or slots (default with "
        "--privacy-unit client: no client can go beyond the range)",
    },
    without=("labels", "max_count"),
    input_form="",
    range="",
    steps="",
)
def gap(options: ReleaseOptions) -> None:
    """Compute DP gaps between groups' mean performance values (π_GAP)."""
    from harness.cli.commands.gap import gap

    gap(options)


@releasing(
    {
        "shares": "instead of --records: what `share` or `aggregate` wrote",
        "epsilon": "the most that a record in a small group is charged; in larger groups it gives away less",
        **ERROR_HELP,
    },
    without=("input_form",),
)
def count(
    options: ReleaseOptions,
    relative_error: str = ERROR_TARGET["relative_error"],
    error_from: str = ERROR_TARGET["error_from"],
    error_to: str = ERROR_TARGET["error_to"],
) -> None:
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""
    from harness.cli.commands.count import count

    count(options, relative_error, error_from, error_to)


@releasing(
    {
        "shares": "instead of --records: what `share --task cap` or `aggregate` wrote",
        **RELEASE_OF_CAP_HELP,
        "max-count": "most records of one client, and the largest cap, up to 1000",
    },
    without=("input_form", "neighboring_relation", "privacy_unit"),
)
def cap(
    options: ReleaseOptions,
    release: str = "weights",
    release_epsilon: str = "",
    counts: str = "",
    variant: str = "",
) -> None:
    """Choose how many records of a client are to count, with differential privacy (π_CAP)."""
    from harness.cli.commands.cap import cap

    cap(options, release, release_epsilon, counts, variant)


@_task(
    help={
        "population": "the one to show; default: all",
        "budget": "gives the population this budget: a total ε, or ε,δ, for example 3 or 3,1e-6",
        "ledger": LEDGER_HELP["ledger"],
        "json": "print JSON",
    }
)
def ledger(_c: Context, population: str = "", budget: str = "", ledger: str = "", json: bool = False) -> None:
    """Show what each population's runs have spent, or give one a budget."""
    from harness.cli.commands.ledger import ledger as show_ledger

    show_ledger(population, budget, ledger, json)


@_task(
    help={
        "args": "passed on to pytest, for example '-k sharing'",
        "all": "exhaustive tests, too, as continuous integration does; tests/README.md says what they are",
    }
)
def test(_c: Context, args: str = "", all: bool = False) -> None:
    """Check format, lint, imports and types, then run the tests."""
    import shlex

    from harness.cli.checks import run_checks

    sys.exit(run_checks(shlex.split(args), everything=all))


# Invoke takes what is named so; it is made last, so that it holds all tasks above.
namespace = Collection.from_module(sys.modules[__name__])
namespace.add_collection(bench)
namespace.add_collection(hosts)
namespace.add_collection(reproduce)
