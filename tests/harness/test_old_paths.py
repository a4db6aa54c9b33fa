"""What users may import: the names of `fairshares`, and two older paths that still lead there."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import fairshares


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("harness.sample_weight", ["read_weights", "sample_weight"]),
        ("harness.predictor", ["GroupThresholdPredictor"]),
    ],
)
def test_an_old_path_warns_and_has_the_same_objects(
    path: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, path, raising=False)
    with pytest.warns(DeprecationWarning, match=f"^{path} moved: use `from fairshares import {names[-1]}`;"):
        old = import_module(path)
    assert old.__all__ == names
    for name in names:
        assert name in fairshares.__all__
        assert getattr(old, name) is getattr(fairshares, name)
