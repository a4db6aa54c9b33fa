"""The commands `reproduce.*`."""

from __future__ import annotations

from invoke import Collection, Context

from harness.tasking import by_name


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
    from benchmarks.reproduce.commands import gaps

    gaps(data, quick, out, json)


reproduce = Collection("reproduce", gaps)
