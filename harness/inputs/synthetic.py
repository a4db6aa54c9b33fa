"""Synthetic records for measuring costs, the same at each call."""

import zlib
from dataclasses import dataclass, field

import numpy as np

from fairshares.harness.inputs.encoding import columns_of, shared_over
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid, even_grid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.rings import Ring
from fairshares.harness.inputs.shares import copies_of, held_by
from fairshares.protocols.spec import InputForm

SEED = 20_220_523  # arbitrary; fixed so that all runs of a comparison have the same clients
MOST = 10**7  # clients, records, cells, or integers of a program


@dataclass(frozen=True)
class Federation:
    """The size of a federation, and the content of its records.

    `thresholds` and `cap` may be 0. With performance values each client has one record.
    """

    clients: int
    records: int
    groups: int
    labels: int
    detail: RecordKind = RecordKind.NONE
    thresholds: int = 0
    cap: int = field(default=0, repr=False)  # `repr` seeds the records, which a bound must not change

    @property
    def is_possible(self) -> bool:
        """Whether the records fit in a few GB."""
        cells = self.groups * max(1, self.labels) * max(1, self.thresholds)
        least = min(self.clients, self.records, self.groups, 1 + self.labels, 1 + self.thresholds)
        return least > 0 and max(self.clients, self.records, cells, self.cap) <= MOST

    @property
    def domain(self) -> RecordDomain:
        """The domain that all clients declare."""
        groups, cap = tuple(f"group {i}" for i in range(self.groups)), Cap(self.cap) if self.cap else None
        if self.detail is RecordKind.VALUE:
            return RecordDomain(groups, (), 1, kind=self.detail, values=ValueGrid(0.0, 1.0), cap=cap)
        return RecordDomain(
            groups,
            tuple(f"label {i}" for i in range(self.labels)),
            max(1, -(-self.records // self.clients)),
            kind=self.detail,
            thresholds=even_grid(self.thresholds) if self.detail is RecordKind.SCORE else (),
            cap=cap,
        )

    def made_up(self) -> ClientRecords:
        """Return uniform, independent records, spread evenly over the clients, each of one group."""
        rng = np.random.default_rng([SEED, zlib.crc32(repr(self).encode())])
        domain, valued = self.domain, self.detail is RecordKind.VALUE
        records = self.clients if valued else self.records
        owner = np.arange(records, dtype=np.int64) % self.clients
        label = np.zeros_like(owner) if valued else rng.integers(self.labels, size=records)
        more = None
        if domain.values is not None:
            more = rng.integers(-domain.values.steps, domain.values.steps, size=records, endpoint=True)
        elif self.detail.of_each:
            more = rng.integers(
                domain.shape[-1],
                size=(records, domain.score_columns) if domain.score_columns > 1 else records,
            )
        return ClientRecords(
            domain,
            np.array([f"client {i}" for i in range(self.clients)]),
            owner,
            rng.integers(self.groups, size=self.clients)[owner],
            label,
            more,
        )

    def values_of(self, party: int, parties: int, form: InputForm, domain: Ring) -> bytes:
        """Return a party's input; share 0 holds all values, and the others are 0.

        [test: tests/harness/inputs/test_synthetic.py]
        """
        over, table = shared_over(form, domain), columns_of(self.made_up(), form)
        values = over.encode(table)
        if form.summed_by_party:
            values = over.total(values)
        return b"".join(
            bytes(values.nbytes) if number else over.to_bytes(values)
            for number in held_by(party, parties, copies_of(form, parties))
        )
