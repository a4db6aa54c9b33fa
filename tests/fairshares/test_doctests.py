"""The examples in the docstrings of what users import do what they say."""

import doctest
from pathlib import Path

import pytest

import fairshares
from fairshares import _calls, _lookups

FINDER = doctest.DocTestFinder(recurse=False)
SHOWN = {
    name: function
    for module in (_calls, _lookups)
    for name, function in vars(module).items()
    if name in fairshares.__all__
}
SHOWN["SumSession"] = fairshares.SumSession
WITHOUT_EXAMPLE = {"load"}  # its example is in `save`'s


@pytest.mark.parametrize("name", sorted(SHOWN.keys() - WITHOUT_EXAMPLE))
def test_an_example_does_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = FINDER.find(SHOWN[name], name)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, len(example.examples))
    assert example.examples
