"""The parser of `OUT` lines: what it accepts, and that it refuses everything else without a value."""

import pytest

from fairshares.harness.engines.execution import parse_outputs
from fairshares.harness.errors import OutputError

GOOD = ["Time = 0.5 seconds ", "OUT counts [3, -4, 5]", "Data sent = 1 MB", "OUT n 7"]


def test_values_and_vectors_in_the_declared_order() -> None:
    got = parse_outputs([GOOD, GOOD[::-1]], ["n", "counts"])
    assert got == {"n": (7,), "counts": (3, -4, 5)}
    assert list(got) == ["n", "counts"]
    assert parse_outputs([[f"OUT n [{-(2**63)}, {2**63 - 1}]\n"]], ["n"]) == {"n": (-(2**63), 2**63 - 1)}


@pytest.mark.parametrize(
    "lines",
    [
        [],  # missing
        ["OUT n 7"],  # the other name
        ["OUT counts [91, 92]", "OUT counts [91, 92]"],  # twice
        ["OUT counts [91, 92]", "OUT other 93"],  # undeclared
        ["OUT counts"],
        ["OUT counts []"],
        ["OUT counts [91,92]"],
        ["OUT counts [91, 92"],
        ["OUT counts 91, 92"],
        ["OUT counts [91, 92] 93"],
        ["OUT counts [91, x]"],
        ["OUT counts 91.5"],
        ["OUT counts ٩١"],  # digits, but not ASCII
        ["OUTcounts [91, 92]"],
        [f"OUT counts {2**63}"],
        [f"OUT counts {-(2**63) - 1}"],
        ["OUT counts " + "9" * 5000],  # longer than int() converts
    ],
)
@pytest.mark.parametrize("at", [0, 2])
def test_refuses(lines: list[str], at: int) -> None:
    logs = [["OUT counts [91, 92]"] for _ in range(3)]
    logs[at] = lines
    with pytest.raises(OutputError) as error:
        parse_outputs(logs, ["counts"])
    assert "9" not in str(error.value).replace("2^63", "")


def test_disagreement_names_party_and_output_only() -> None:
    logs = [["OUT n 7", "OUT m 1"], ["OUT n 7", "OUT m 1"], ["OUT n 8", "OUT m 1"]]
    with pytest.raises(OutputError, match="Parties 0 and 2 revealed different values for n;") as error:
        parse_outputs(logs, ["n", "m"])
    assert "8" not in str(error.value) and "7" not in str(error.value)
