"""What people are told about a cap that was chosen."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from harness.releases.contribution_cap import ChosenCap
from harness.views import cap as show_cap
from protocols.noise.truncated import Guarantee

LARGEST = "This is the largest"
FIRST = "This is the first that, by counts with noise, 5 clients or fewer exceed."
NOISE_ALONE = "which cap was chosen shows noise alone"
MOSTLY_NOISE = "mostly noise"


@pytest.mark.parametrize(
    ("index", "clients", "noise", "said"),
    [
        (1, 100, 9, {FIRST}),
        (2, 100, 9, {LARGEST}),
        (1, 5, 9, {FIRST, NOISE_ALONE}),
        (1, 6, 9, {FIRST, MOSTLY_NOISE}),
        (1, 9, 9, {FIRST, MOSTLY_NOISE}),
        (1, 10, 9, {FIRST}),
    ],
)
def test_how_far_a_cap_can_be_relied_on(
    index: int,
    clients: int,
    noise: int,
    said: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(show_cap, "statement", lambda *_: None)
    found = ChosenCap((1, 2, 3), index, above=5, noise=noise)
    run: Any = SimpleNamespace(found=found, manifest={"inputs": {"clients": clients}})
    command = "./inv weights --records " + "x" * 200
    show_cap.cap(run, [("Next", command)])
    shown = capsys.readouterr().out
    assert f"Next: {command}\n" in shown  # whole, whatever the width
    show_cap.going_on_with(found, clients, Guarantee(Fraction(4, 5), Fraction(1, 100)))
    first = " ".join(capsys.readouterr().err.split())
    assert f"repeat it with --cap {found.cap} --epsilon 4/5 --delta 1/100: as much in all as was" in first
    assert "if its parties had not started, else that ε and δ come on top" in first
    assert {each for each in (NOISE_ALONE, MOSTLY_NOISE) if each in first} == said - {FIRST, LARGEST}
    text = " ".join(shown.split())
    assert {each for each in (LARGEST, FIRST, NOISE_ALONE, MOSTLY_NOISE) if each in text} == said
    assert f"up to {noise} clients, with at least 95% probability; another run may choose another" in text
