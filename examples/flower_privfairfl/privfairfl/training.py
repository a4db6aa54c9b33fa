"""A client's training: gradient steps on its own rows, by DP-SGD if there is noise."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks.studies.training.people import People
from fairshares.harness.training.logistic import with_constant
from fairshares.protocols.arrays import Floats


@dataclass(frozen=True)
class Recipe:
    """How clients train.

    Attributes:
        rounds: How many rounds there are.
        local_epochs: How many steps a client takes in a round, each by all of its rows.
        rate: The learning rate.
        clip: The norm to which each row's gradient is clipped if there is noise.
        noise: The noise's standard deviation over the clip; 0 for none.
    """

    rounds: int
    local_epochs: int
    rate: float
    clip: float
    noise: float

    def train(self, model: Floats, rows: People, weight: Floats, rng: np.random.Generator) -> Floats:
        """Return a client's model after a round.

        Source: PrivFairFL, appendix C, with a microbatch for each row, as in the published code: a row's
        gradient is weighed, and then clipped.

        Args:
            model: The federation's, of a logistic regression; shape (p + 1,), the intercept last.
            rows: The client's own.
            weight: Of each row, shape (n,).
            rng: Randomness of the noise.
        """
        inputs = with_constant(rows.features)
        lengths = np.linalg.norm(inputs, axis=1)
        for _ in range(self.local_epochs):
            off = weight * (expit(inputs @ model) - rows.label)
            if self.noise:
                off = off / np.maximum(1, np.abs(off) * lengths / self.clip)
            gradient = off @ inputs
            if self.noise:
                gradient = gradient + rng.normal(0, self.noise * self.clip, len(gradient))
            model = model - self.rate * gradient / len(rows.label)
        return np.asarray(model)
