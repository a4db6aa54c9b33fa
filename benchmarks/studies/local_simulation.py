"""Many clients of a local mechanism at once: what a collector would hear of 10^7 to 10^9 of them.

Simulation, never privacy noise: numpy's generator is seeded, so that figures can be repeated. Clients perturb
with `protocols.local_dp.randomizers`, whose randomness is the operating system's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import expm1

import numpy as np
import numpy.typing as npt

from protocols.local_dp.estimators import Tally
from protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CHUNK = 1 << 20  # of clients with values of their own that are in memory at once
_CELLS = 1 << 20  # of runs times values that are drawn at once


@dataclass(frozen=True, eq=False)
class Population:
    """How many clients hold each tuple (group, value), or a chunk of a larger population.

    Attributes: values: per group, in the declared range; clients: as many, how many hold each.
    """

    values: tuple[Floats, ...]
    clients: tuple[Integers, ...]

    def __post_init__(self) -> None:
        if [each.shape for each in self.values] != [each.shape for each in self.clients]:
            raise ValueError("each value of each group has a number of clients that hold it")

    @property
    def sizes(self) -> Integers:
        """Return how many clients each group has."""
        return np.array([each.sum() for each in self.clients], dtype=np.int64)


def population_of(groups: npt.ArrayLike, values: npt.ArrayLike, of: int) -> Population:
    """Return the population of clients with these tuples. Args: groups: from 0; of: how many there are."""
    group, value = np.asarray(groups), np.asarray(values, dtype=np.float64)
    found = [np.unique(value[group == g], return_counts=True) for g in range(of)]
    return Population(tuple(each for each, _ in found), tuple(count for _, count in found))


def drawn_in_chunks(
    sizes: Sequence[int], draw: Callable[[int, int], Floats], chunk: int = CHUNK
) -> Iterator[Population]:
    """Yield a population in chunks of clients that have a value each: it is never in memory as a whole.

    Args: sizes: of the groups; draw: from a group and a number of clients to their values.
    """
    for g, size in enumerate(sizes):
        for done in range(0, size, chunk):
            clients = min(chunk, size - done)
            values = [np.zeros(0)] * len(sizes)
            ones = [np.zeros(0, dtype=np.int64)] * len(sizes)
            values[g], ones[g] = draw(g, clients), np.ones(clients, dtype=np.int64)
            yield Population(tuple(values), tuple(ones))


@dataclass(frozen=True)
class PublishedL:
    """M_L as published, with noise of scale k / epsilon_2 where the group moved: no LDP unless k = 2.

    For comparison only: no client library has it.  Attributes: at_two: the same with k = 2.
    """

    at_two: MechanismL
    k: Fraction


Simulable = Mechanism | PublishedL


@dataclass(frozen=True, eq=False)
class Simulated:
    """What a collector heard in each of several runs of one mechanism, and the truth.

    Attributes: mechanism: by which it estimates; sizes, means: the true ones, means in the declared range's
    unit, nan of an empty group; counts, sums: shape (runs, d), how many reports name each group, and the
    sum of their values in the scale from -1 to 1.
    """

    mechanism: Mechanism
    sizes: Integers
    means: Floats
    counts: Integers
    sums: Floats

    def estimated_sizes(self) -> Floats:
        """Return the groups' sizes, estimated from the reports, shape (runs, d)."""
        keep, move = float(self.mechanism.grr.keep), float(self.mechanism.grr.move)
        return np.asarray((self.counts - move * self.sizes.sum()) / (keep - move))

    def estimated_means(self, *, sizes_known: bool = True) -> Floats:
        """Return the groups' means in the declared range's unit, shape (runs, d): `estimate_means`'s values.

        Edge cases: nan where a group's size, known or estimated, is not above 0.
        """
        sizes = self.sizes if sizes_known else self.estimated_sizes()
        of_all = float(self.mechanism.grr.keep) * self.mechanism.gain * np.where(sizes > 0, sizes, np.nan)
        declared = self.mechanism.declared
        return np.asarray(declared.centre + declared.radius * self.sums / of_all)

    def estimated_gaps(self, a: int = 0, b: int = 1, *, sizes_known: bool = True) -> Floats:
        """Return mean of a - mean of b, signed, shape (runs,)."""
        means = self.estimated_means(sizes_known=sizes_known)
        return np.asarray(means[:, a] - means[:, b])

    def gap(self, a: int = 0, b: int = 1) -> float:
        """Return the true one."""
        return float(self.means[a] - self.means[b])

    def tally(self, run: int) -> Tally:
        """Return what `protocols.local_dp.estimators` takes, for one run: intervals are there."""
        return Tally(self.counts[run], self.sums[run])


def simulate(
    mechanisms: Sequence[Simulable],
    population: Population | Iterable[Population],
    runs: int,
    rng: np.random.Generator,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Simulated]:
    """Draw what a collector hears of all clients, in each of `runs` independent runs of each mechanism.

    Computes: the exact law of counts and sums, without a step per client that shares its tuple with others.
    M_R: a value's bit is the same coin whether the group is kept or not, so the bits that are 1 are a sum of
    binomials, and clients of one group and bit give a multinomial number of each of the 2 d reports. M_L: the
    clients kept are binomial per value, those rounded up of these too; the sum of n clients' noise is the
    difference of two negative binomials.
    Guarantees: the law of as many calls of `Mechanism.perturb`, within floating-point arithmetic.
    [test: tests/statistical/test_local_simulation.py]
    Memory: that of a chunk, and 2^20 draws at once.
    [test: tests/benchmarks/studies/test_local_simulation.py]
    Args: population: or its chunks, gone through once; progress: called with the clients done so far.
    Raises: ValueError: a value outside the declared range, or another number of groups.
    """
    chunks = [population] if isinstance(population, Population) else population
    each = [_Run(m, runs, own) for m, own in zip(mechanisms, rng.spawn(len(mechanisms)), strict=True)]
    truth, done = _Truth(each[0].mechanism.grr.groups), 0
    for chunk in chunks:
        truth.add(chunk)
        for one in each:
            one.add(chunk)
        done += int(chunk.sizes.sum())
        progress(done)
    return [one.finish(truth) for one in each]


def summed_geometric(clients: Integers, odds: float, rng: np.random.Generator) -> Integers:
    """Draw sums of `clients` geometric variables each, P(x) in proportion to ratio^x, x >= 0.

    Computes: the negative binomial law, as a Poisson variable with a gamma's rate.
    Args: odds: ratio / (1 - ratio), the mean of one.
    """
    return np.asarray(rng.poisson(rng.gamma(clients) * odds), dtype=np.int64)


def _moved(leaving: Integers, rng: np.random.Generator) -> Integers:
    """Return how many arrive in each group, when those that leave one go to the others alike."""
    d = leaving.shape[-1]
    arriving = np.zeros_like(leaving)
    for g in range(d):
        to = np.where(np.arange(d) == g, 0.0, 1 / (d - 1))
        arriving += rng.multinomial(leaving[..., g], to)
    return arriving


class _Truth:
    def __init__(self, groups: int) -> None:
        self.sizes, self.totals = np.zeros(groups, dtype=np.int64), np.zeros(groups)

    def add(self, chunk: Population) -> None:
        if len(chunk.values) != len(self.sizes):
            raise ValueError(
                f"the population has {len(chunk.values)} groups, the mechanism {len(self.sizes)}"
            )
        self.sizes += chunk.sizes
        self.totals += [values @ n for values, n in zip(chunk.values, chunk.clients, strict=True)]

    def means(self) -> Floats:
        return np.asarray(self.totals / np.where(self.sizes > 0, self.sizes, np.nan))


class _Run:
    """All runs of one mechanism, fed chunk by chunk."""

    def __init__(self, simulated: Simulable, runs: int, rng: np.random.Generator) -> None:
        self.k = Fraction(2) if isinstance(simulated, Mechanism) else simulated.k
        self.mechanism = simulated if isinstance(simulated, Mechanism) else simulated.at_two
        self.rng = rng
        shape = (runs, self.mechanism.grr.groups)
        # Of M_R, clients whose bit is 1; of M_L, clients kept and the sum of their values, in units.
        self.ups, self.kept, self.sums = (np.zeros(shape, dtype=np.int64) for _ in range(3))

    def add(self, chunk: Population) -> None:
        for g, (values, clients) in enumerate(zip(chunk.values, chunk.clients, strict=True)):
            scaled = self.mechanism.declared.scaled(values)
            for first in range(0, len(scaled), _CELLS):
                part = slice(first, first + _CELLS)
                step = max(1, _CELLS // len(scaled[part]))
                for run in range(0, len(self.sums), step):
                    self._draw(g, slice(run, run + step), scaled[part], clients[part])

    def _draw(self, g: int, runs: slice, scaled: Floats, clients: Integers) -> None:
        shape = (len(self.sums[runs]), len(scaled))
        if isinstance(self.mechanism, MechanismR):
            self.ups[runs, g] += self._tosses(clients, (1 + scaled) / 2, shape).sum(axis=1)
            return
        units = scaled * self.mechanism.unit
        low = np.floor(units)
        kept = self._tosses(clients, np.float64(self.mechanism.grr.keep), shape)
        up = self._tosses(kept, units - low, shape)
        self.kept[runs, g] += kept.sum(axis=1)
        self.sums[runs, g] += kept @ low.astype(np.int64) + up.sum(axis=1)

    def _tosses(self, n: Integers, chances: Floats | np.float64, shape: tuple[int, int]) -> Integers:
        """Return binomial numbers of this shape: a coin each where every client has a value of its own."""
        if n.max() > 1:
            return self.rng.binomial(np.broadcast_to(n, shape), chances)
        return np.asarray((self.rng.random(shape) < chances) & (n > 0), dtype=np.int64)

    def finish(self, truth: _Truth) -> Simulated:
        counts, sums = (
            self._reports_of_r(truth) if isinstance(self.mechanism, MechanismR) else self._of_l(truth)
        )
        return Simulated(self.mechanism, truth.sizes, truth.means(), counts, sums)

    def _reports_of_r(self, truth: _Truth) -> tuple[Integers, Floats]:
        assert isinstance(self.mechanism, MechanismR)
        d, truth_told = self.mechanism.grr.groups, float(self.mechanism.truth)
        keep, move = float(self.mechanism.grr.keep), float(self.mechanism.grr.move)
        reports = np.zeros((*self.ups.shape, 2), dtype=np.int64)  # by group and told bit
        for g in range(d):
            for bit, n in ((1, self.ups[:, g]), (0, truth.sizes[g] - self.ups[:, g])):
                law = np.full((d, 2), move / 2)
                law[g, bit], law[g, 1 - bit] = keep * truth_told, keep * (1 - truth_told)
                reports += self.rng.multinomial(n, law.ravel()).reshape(reports.shape)
        return reports.sum(axis=2), (reports[..., 1] - reports[..., 0]).astype(np.float64)

    def _of_l(self, truth: _Truth) -> tuple[Integers, Floats]:
        assert isinstance(self.mechanism, MechanismL)
        moved, scale = _moved(truth.sizes - self.kept, self.rng), self.mechanism.scale
        noise = np.zeros(self.sums.shape, dtype=np.int64)
        for clients, wide in ((self.kept, scale), (moved, scale * self.k / 2)):
            odds = 1 / expm1(float(1 / wide))
            noise += summed_geometric(clients, odds, self.rng) - summed_geometric(clients, odds, self.rng)
        return self.kept + moved, (self.sums + noise) / self.mechanism.unit
