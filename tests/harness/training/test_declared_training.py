"""What a training over hosts declares: in how many of its rounds a client takes part, which ε is for."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.record_schema import RecordDomain, VectorGrid, domain_from_json
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.features import Features, NumberInRange
from fairshares.harness.training.logistic import Descent
from fairshares.harness.training.request import TrainRequest
from tests.support.vectors import task_of_vectors

ROUNDS = 4
FEATURES = Features({"age": NumberInRange(0, 10)})
IN_ALL = DeclaredTraining(RecordDomain(("a", "b"), ("no", "yes")), FEATURES, Descent(ROUNDS), None)
IN_TWO = replace(IN_ALL, participations=2)


def grid_of(declared: DeclaredTraining) -> VectorGrid:
    """Return the vectors of a task that is made from what a training declares."""
    grid = domain_from_json(declared.declaration(), "it").vectors
    assert grid is not None
    return grid


def test_a_task_has_the_rounds_of_a_client_that_its_training_declares() -> None:
    assert (grid_of(IN_ALL).participations, grid_of(IN_ALL).most_of_a_client) == (0, ROUNDS)
    assert (grid_of(IN_TWO).participations, grid_of(IN_TWO).most_of_a_client) == (2, 2)
    assert replace(grid_of(IN_TWO), participations=0) == grid_of(IN_ALL)


def test_a_training_takes_no_task_whose_loss_is_for_other_rounds_of_a_client(tmp_path: Path) -> None:
    """A training that does not say takes what the task says."""
    of_all = task_of_vectors(tmp_path / "all", grid_of(IN_ALL))
    of_two = task_of_vectors(tmp_path / "two", grid_of(IN_TWO))
    IN_ALL.check_task(of_two)
    IN_TWO.check_task(of_two)
    replace(IN_ALL, participations=ROUNDS).check_task(of_all)
    for training, task, has in ((IN_TWO, of_all, 4), (replace(IN_TWO, participations=3), of_two, 2)):
        with pytest.raises(OptionError, match=f"is for a client in {has} of its 4 reveals at most, not in"):
            training.check_task(task)


def test_a_client_takes_part_in_no_more_rounds_than_there_are() -> None:
    request = TrainRequest(
        records="my.csv", features="f.json", rounds=str(ROUNDS), epsilon="1", groups="a,b", labels="no,yes"
    )
    for asked in (None, ROUNDS):
        declared = DeclaredTraining.of(request, FEATURES, is_weighed=False, participations=asked)
        assert declared == replace(IN_ALL, participations=asked)
    with pytest.raises(OptionError, match="participations=5 is more than the 4 rounds"):
        DeclaredTraining.of(request, FEATURES, is_weighed=False, participations=ROUNDS + 1)
