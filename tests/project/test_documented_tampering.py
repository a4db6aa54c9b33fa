"""What the page on active security says was tried is what was recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.commands.tampering import summary
from benchmarks.tampering import timing
from benchmarks.tampering.walk import load

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "explanation" / "active-security.md").read_text(encoding="utf-8")
MOST_USED = ("pi_rw", "pi_cf", "pi_roc", "pi_gap", "pi_lap", "pi_sum")
RESULTS = PROJECT / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("tried", "first"), [("operations", "small programs"), ("programs", "programs"), ("noise", "noise")]
)
def test_counts_of_changes(tried: str, first: str) -> None:
    """A row for each model, all its operations together."""
    attempts = load(RESULTS / "tampering" / tried / "samples.jsonl")
    rows = summary([replace(attempt, operation=tried) for attempt in attempts])
    assert {row["security"] for row in rows} >= {"spdz2k", "ps-rep-ring", "rep4-ring"}
    for row in rows:
        changed = sum(row[name] for name in ("aborted", "opened", "right", "wrong"))
        counts = (changed, row["aborted"], row["opened"], row["right"], row["wrong"])
        assert row["shifted"] == 0  # "whatever was revealed before a run was ended was right as well"
        cells = " | ".join(f"{count:,}" for count in counts)
        line = f"| {first} | `{row['security']}` | {cells} | {100 * row['wrong_at_most']:.2g} % |"
        assert line in PAGE, line
        if "noise" in row:
            said = (
                f"`{row['security']}`: {row['noise']:,} samples, {row['distance']:.3f} from the distribution"
            )
            assert said in PAGE, said
            assert row["distance"] <= row["by_chance"]


def test_times() -> None:
    rows = timing.summary(timing.load(RESULTS / "timing" / "samples.jsonl"))
    assert not any(row["sizes_differ"] or row["found"] for row in rows)
    said = f"{sum(row['pairs'] for row in rows):,} pairs of {len(rows)} programs and models"
    assert said in PAGE, said
    most_used = [row for row in rows if row["operation"].split()[0] in MOST_USED]
    for of in (
        [row for row in most_used if row["security"] != "spdz2k"],
        [row for row in most_used if row["security"] == "spdz2k"],
        [row for row in rows if row not in most_used],
    ):
        long = [row["difference_s"][1] - row["difference_s"][0] for row in of]
        parts = [100 * length / row["seconds"] for length, row in zip(long, of, strict=True)]
        cells = (
            span("", *(row["pairs"] for row in of)),
            span(".3g", *(row["seconds"] for row in of)),
            f"{span('.3g', *(1e3 * length for length in long))} ms",
            f"{span('.0f', *parts)} %",
        )
        assert " | ".join(cells) in PAGE, cells


def span(form: str, *values: float) -> str:
    return f"{min(values):{form}}–{max(values):{form}}"
