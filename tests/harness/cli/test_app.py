"""What is said of a command line that cannot be."""

from __future__ import annotations

import pytest

from harness.cli.app import explained

SAID = [
    (
        "No idea what '--eps' is!",
        "weights",
        "weights has no option --eps (did you mean --epsilon?); `./inv weights --help` explains all.",
    ),
    (
        "No idea what 'my.csv' is!",
        "weights",
        "'my.csv' belongs to no option of weights; values go by name, for example --out results; "
        "`./inv weights --help` explains all.",
    ),
    (
        "No idea what 'wieghts' is!",
        None,
        "There is no command 'wieghts' (did you mean weights?); `./inv` lists all.",
    ),
    ("No idea what 'x' is!", None, "There is no command 'x'; `./inv` lists all."),
    (
        "Flag <Argument: epsilon> needed value and was not given one!",
        "weights",
        "--epsilon needs a value; `./inv weights --help` explains it.",
    ),
    ("Something else.", "weights", "Something else."),
]


@pytest.mark.parametrize(("complaint", "command", "sentence"), SAID)
def test_a_complaint_says_the_way_out(complaint: str, command: str | None, sentence: str) -> None:
    assert explained(complaint, command, ["--epsilon", "--out"], ["weights", "share"]) == sentence
