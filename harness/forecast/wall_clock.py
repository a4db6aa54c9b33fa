"""How long a command takes from Enter to the prompt, by what it does.

The computation and the compiler are predicted by unit costs. How long processes take to start here, records
to be read, shared and added up, and results to be derived is tried out on made-up ones, in processor time: so
it is that of a machine that does nothing else.
"""

import math
import os
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

import numpy as np

from harness.engines.base import PROJECT
from harness.errors import FairSharesError
from harness.forecast.unit_costs import sum_if_known
from harness.inputs.record_schema import RecordKind
from harness.inputs.records import read_records
from harness.inputs.synthetic import Federation
from harness.pipeline.sources import share_and_add_up
from harness.releases.base import PreparedRelease, Statistic
from harness.releases.expected_errors import Floats
from harness.request.base import Request
from protocols.accounting.queries import LinearQueries

_RECORDS = 2000  # that are read
_CLIENTS = 64  # that share, or four times as many until it takes long enough to be told
_ENOUGH_S = 0.03
_MOST_RECORDS = 10**6  # of those clients
# What a party's process imports before it begins.
_OF_A_PARTY = ("harness.engines.parties.main", "harness.engines.parties.certificates")
_OF_OWN_NOISE = ("harness.engines.parties.inputs", "protocols.noise.tables")
_OF_MPYC = ("mpyc.runtime", "harness.engines.mpyc.machine", "harness.engines.mpyc.interpreter")
_CELLS = {"group": "group 0", "label": "label 0", "score": "0.5", "prediction": "label 0", "value": "0.5"}


@dataclass(frozen=True)
class WallClock:
    """Seconds of a command, by what they are for.

    Attributes: start_s: until the command, and then its parties, have started; design_s: of the noise;
    read_s: reading the records; share_s: clients' sharing and the parties' adding up; compile_s: 0 where an
    earlier run's program is kept, None where it was not measured; mpc_s: the computation; derive_s: the
    result from what is opened.
    """

    start_s: float
    design_s: float
    read_s: float
    share_s: float
    compile_s: float | None
    mpc_s: float
    derive_s: float

    @property
    def wall_s(self) -> float | None:
        """All of them together."""
        return sum_if_known(list(vars(self).values()))


def parties_start_s(release: Request) -> float:
    """Return how long a run's parties take to start here, as many at once as there are processors."""
    model, more = release.model, _OF_OWN_NOISE if release.own_law else ()
    modules = (*_OF_A_PARTY, *(() if model.virtual_machine else _OF_MPYC), *more)
    one = starting_s(f"import {', '.join(modules)}")
    parties: int = model.parties
    return one * parties / min(parties, os.cpu_count() or 1)


@cache
def starting_s(code: str) -> float:
    """Return the processor time of a Python that runs this and ends."""
    command = [sys.executable, "-P", "-c", code]
    before = childrens_processor_s()
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, check=True)
    return childrens_processor_s() - before


def childrens_processor_s() -> float:
    """Return how many seconds of processors all processes took that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def reading_s(kind: RecordKind) -> float:
    """Return how long reading a record takes here, by reading some."""
    domain = Federation(_RECORDS, _RECORDS, 2, 2, kind, thresholds=2).domain
    names = [*(["group"] if domain.values else ["group", "label"]), *([str(kind)] if kind.of_each else [])]
    row = ",".join(_CELLS[name] for name in names)
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "records.csv")
        path.write_text(
            "\n".join([",".join(["client_id", *names]), *(f"{i},{row}" for i in range(_RECORDS))])
        )
        before = thread_time()
        read_records(path, domain, kind=kind)
        return (thread_time() - before) / _RECORDS


def sharing_s(federation: Federation, release: Request) -> float:
    """Return how long all clients' sharing and the parties' adding up take here, by those of some clients."""
    clients = min(_CLIENTS, federation.clients)
    while True:
        some = min(max(1, federation.records * clients // federation.clients), _MOST_RECORDS)
        records = replace(federation, clients=clients, records=some).made_up()
        with TemporaryDirectory() as scratch:
            before = thread_time()
            share_and_add_up(records, release.form, release.model, Path(scratch), lambda _: None)
            took = thread_time() - before
        if took >= _ENOUGH_S or clients == federation.clients:
            return took * federation.clients / clients
        clients = min(4 * clients, federation.clients)


def deriving_s(statistic: Statistic[Any], prepared: PreparedRelease[Any], sizes: Floats) -> float:
    """Return how long it takes here to derive the result: from sums of counts, of records spread evenly.

    Of other results 0: there are few of them.
    Args: sizes: how many records each group and label has, shape (k, m).
    """
    release, outputs = prepared.plan.release, prepared.program.outputs
    if not isinstance(release, LinearQueries) or release.amounts or len(outputs) > 1:
        return 0.0
    each, before = release.cells // sizes.size, thread_time()
    nodes = np.zeros(release.nodes)
    for column, records in zip(release.columns, np.repeat(sizes.ravel() / each, each), strict=False):
        nodes[list(column)] += records
    with suppress(FairSharesError):  # so few records that there is no result
        opened = tuple(np.rint(nodes).astype(int).tolist())
        statistic.files(prepared.read({outputs[0]: opened}, math.ceil(sizes.sum())))
    return thread_time() - before
