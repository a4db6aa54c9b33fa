"""Populations of local simulations, from clients one by one."""

import numpy as np
import numpy.typing as npt

from benchmarks.studies.local_simulation import ClientValues


def population_of(groups: npt.ArrayLike, values: npt.ArrayLike, of: int) -> ClientValues:
    """Return the population of clients with these tuples. Args: groups: from 0; of: how many there are."""
    group, value = np.asarray(groups), np.asarray(values, dtype=np.float64)
    distinct = [np.unique(value[group == g], return_counts=True) for g in range(of)]
    return ClientValues(
        tuple(distinct_values for distinct_values, _ in distinct), tuple(count for _, count in distinct)
    )
