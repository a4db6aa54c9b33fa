"""One client's upload is garbage, every share of it any element: the others have their result."""

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import read_records
from harness.security_models import MODELS, SecurityModel
from protocols.arrays import Words
from protocols.spec import SPLIT
from tests.support.command import call
from tests.support.running import model_parameters
from tests.support.sharing import share

HEADER = "client_id,group,label\n"
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 1000)
WITHIN = 10  # of the noise at ε = 20: its coins can make no more


def large(values: np.typing.NDArray[np.int64], word: int) -> Words:
    """Encode the first value as an element about in the middle of all that there are, others as 0."""
    words = np.zeros((*values.shape, word), dtype=np.uint64)
    words[0, ..., -1] = 1 << 61
    return words


@pytest.mark.filterwarnings("default:A revealed value is beyond")
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["mpyc"], MODELS["ring"]]))
def test_garbage_in_one_cell_leaves_the_others(model: SecurityModel, tmp_path: Path) -> None:
    for name, rows in (("honest", "me,a,0\n" * 300 + "me,b,1\n" * 200), ("liar", "you,a,0\n")):
        (tmp_path / f"{name}.csv").write_text(HEADER + rows)
        records = read_records(tmp_path / f"{name}.csv", DOMAIN)
        with mock.patch.object(
            type(model.domain),
            "encode",
            (lambda _ring, values: large(values, model.domain.words))
            if name == "liar"
            else type(model.domain).encode,
        ):
            share(records, SPLIT, model.domain, model.parties, tmp_path / "shares")
    options = ("--epsilon", "20", "--population", "none", "--security", model.name, "--out", "out")
    done = call("weights", "--shares", "shares", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A revealed value is beyond what the clients' declared maximum" in " ".join(done.stderr.split())
    assert "noisy_counts.py" not in done.stderr
    (garbage, none), (other, sure) = json.loads((tmp_path / "out" / "weights.json").read_text())[
        "noisy_counts"
    ]
    assert garbage > 2000 and abs(none) < WITHIN and abs(other) < WITHIN and abs(sure - 200) < WITHIN
