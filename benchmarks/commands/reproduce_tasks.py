"""The commands `reproduce.*`."""

from __future__ import annotations

from invoke import Collection, Context

from harness.cli.tasking import by_name


@by_name(
    help={
        "data": "the activity data, UCI 427: the archive as downloaded, or the directory that it was "
        "unpacked into; default: a synthetic population with the means that the paper prints",
        "quick": "fewer runs, and one split of the data instead of ten; in seconds",
        "out": "a new directory for the results; default: runs/reproduce.gaps-<time>",
        "json": "print all numbers as JSON, and nothing else, on standard output",
    }
)
def gaps(_c: Context, data: str = "", quick: bool = False, out: str = "", json: bool = False) -> None:
    """Compute the published tables and figures on gaps under local privacy again, and set them beside."""
    from benchmarks.commands.studies import gaps

    gaps(data, quick, out, json)


@by_name(
    help={
        "epsilon": "the most that a record in a small group is charged; default: 1",
        "relative-error": "of counts, on average; default: 0.1",
        "error-from": "the least count for which that holds; default: 100",
        "error-to": "the largest; default: 1048576",
        "out": "a new directory for the results; default: runs/reproduce.groupwise-<time>",
        "json": "print all numbers as JSON, and nothing else, on standard output",
    }
)
def groupwise(
    _c: Context,
    epsilon: str = "1",
    relative_error: str = "0.1",
    error_from: str = "100",
    error_to: str = "1048576",
    out: str = "",
    json: bool = False,
) -> None:
    """Draw what counts' logarithms protect by the size of the group, beside the open problem's noise."""
    from benchmarks.commands.studies import groupwise

    groupwise(epsilon, (relative_error, error_from, error_to), out, json)


@by_name(
    help={
        "movielens": "the directory that MovieLens 1M or 100K was unpacked into; default: synthetic only",
        "clients": "of each synthetic population; default: 1000,10000,100000",
        "exponents": "a of the law n^-a by which a client has n records; default: 1.5,2",
        "held-out": "also clients by other laws, by which nothing in `cap` was chosen; takes twice as long",
        "held-out-movielens": "as --movielens, to be reported with those",
        "out": "a new directory for the results; default: runs/reproduce.capping-<time>",
        "json": "print all numbers as JSON, and nothing else, on standard output",
    }
)
def capping(
    _c: Context,
    movielens: str = "",
    clients: str = "1000,10000,100000",
    exponents: str = "1.5,2",
    held_out: bool = False,
    held_out_movielens: str = "",
    out: str = "",
    json: bool = False,
) -> None:
    """Draw what caps on clients' records cost and save, how to choose one, and the paper's bounds."""
    from benchmarks.commands.studies import capping

    capping(movielens, held_out_movielens, clients, exponents, held_out, out, json)


reproduce = Collection("reproduce", capping, gaps, groupwise)
