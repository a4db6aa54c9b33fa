"""What people are told about a cap that was chosen."""

from fractions import Fraction

import pytest

from harness.releases.contribution_cap import ChosenCap
from harness.views.parts import Line
from harness.views.releases.cap import cap, going_on_with
from protocols.guarantee import Guarantee

LARGEST = "This is the largest"
FIRST = "This is the smallest that, by noisy counts, 5 clients or fewer exceed."
NOISE_ALONE = "any other choice is noise alone"
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
def test_how_far_a_cap_can_be_relied_on(index: int, clients: int, noise: int, said: set[str]) -> None:
    found = ChosenCap((1, 2, 3), index, above=5, noise=noise)
    following = Line("Next", "./inv weights --records x")
    shown = [part for part in cap(found, clients, [following]) if isinstance(part, str | Line)]
    assert following in shown
    first = " ".join(going_on_with(found, clients, Guarantee(Fraction(4, 5), Fraction(1, 100))))
    assert f"repeat it with --cap {found.cap} --epsilon 4/5 --delta 1/100. That keeps to the total" in first
    assert "if its parties had not started; else this ε and δ are spent twice" in first
    assert {each for each in (NOISE_ALONE, MOSTLY_NOISE) if each in first} == said - {FIRST, LARGEST}
    text = " ".join(map(str, shown))
    assert {each for each in (LARGEST, FIRST, NOISE_ALONE, MOSTLY_NOISE) if each in text} == said
    assert f"up to {noise} clients, with at least 95% probability; another run may choose another" in text
