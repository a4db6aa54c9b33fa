"""The recorder: what it feeds in is on file, and it does what the file says."""

import json

import pytest

from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from tests.recorded.record import MODEL, record, vectors
from tests.recorded.vectors import read_vectors

RECORDED = {vector["name"]: vector for vector in read_vectors()["vectors"]}


def test_every_vector_is_recorded() -> None:
    fed = {vector["name"]: json.loads(json.dumps(vector)) for vector in vectors()}
    assert list(fed) == list(RECORDED), "run: .venv/bin/python -m tests.recorded.record"
    for name, vector in fed.items():
        assert vector == {key: RECORDED[name][key] for key in vector}, name


@pytest.mark.mpspdz(MODEL.name)
@pytest.mark.parametrize("name", ["counts", "too-few-bits"])
def test_a_vector_is_recorded_again(name: str) -> None:
    """Its hash may differ from the one on file, as it is of the circuits and of MP-SPDZ's version."""
    installation = find_installation()
    assert isinstance(installation, Installation)
    (vector,) = (vector for vector in vectors() if vector["name"] == name)
    again = json.loads(json.dumps(record(vector, installation)))
    assert list(again) == list(RECORDED[name])
    for key in ("opened", "commands_of_party_0"):
        assert again.get(key) == RECORDED[name].get(key)
