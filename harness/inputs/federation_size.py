"""The size of a federation, and records of that size by which costs are found out.

A plan times the sharing of such records. A host whose owner allows it takes part in a benchmark run on them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid, even_grid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.protocols.arrays import Integers

MOST_MADE_UP = 10**7  # clients, records, cells, or integers of a program


@dataclass(frozen=True)
class FederationSize:
    """The numbers of clients, records, groups and so on, and the content of a record.

    Attributes:
        clients: The number of clients.
        records: The number of records of all clients. With performance values it is not used, as each
            client has one.
        groups: The number of groups.
        labels: The number of labels; 0 for performance values.
        detail: The values that a record has beside group and label.
        thresholds: The number of thresholds between scores; 0 without scores.
        cap: The contribution bound; 0 without one.
    """

    clients: int
    records: int
    groups: int
    labels: int
    detail: RecordKind = RecordKind.NONE
    thresholds: int = 0
    cap: int = 0

    @property
    def is_possible(self) -> bool:
        """Whether the records fit in a few GB."""
        cells = self.groups * max(1, self.labels) * max(1, self.thresholds)
        least = min(self.clients, self.records, self.groups, 1 + self.labels, 1 + self.thresholds)
        return least > 0 and max(self.clients, self.records, cells, self.cap) <= MOST_MADE_UP

    @property
    def domain(self) -> RecordDomain:
        """The domain that all clients declare."""
        groups = tuple(f"group {number}" for number in range(self.groups))
        cap = Cap(self.cap) if self.cap else None
        if self.detail is RecordKind.VALUE:
            return RecordDomain(groups, (), 1, kind=self.detail, values=ValueGrid(0.0, 1.0), cap=cap)
        return RecordDomain(
            groups,
            tuple(f"label {number}" for number in range(self.labels)),
            max(1, -(-self.records // self.clients)),
            kind=self.detail,
            thresholds=even_grid(self.thresholds) if self.detail is RecordKind.SCORE else (),
            cap=cap,
        )

    @property
    def owners(self) -> Integers:
        """The client of each record, shape (records,): records are spread evenly over clients."""
        is_valued = self.detail is RecordKind.VALUE
        records = self.clients if is_valued else self.records
        return np.arange(records, dtype=np.int64) % self.clients

    @property
    def client_ids(self) -> npt.NDArray[np.str_]:
        """The clients' names, shape (clients,)."""
        return np.array([f"client {number}" for number in range(self.clients)])

    def even_records(self) -> ClientRecords:
        """Return records that are spread evenly over groups, labels, and scores, predictions or values.

        Each client has one group. The same size always has the same records.
        """
        domain = self.domain
        owners = self.owners
        turn = np.arange(len(owners), dtype=np.int64) // self.groups  # the turn of the records of a group
        label = np.zeros_like(owners)
        if self.labels:
            label = turn % self.labels
            turn = turn // self.labels  # the turn of the records of a group and label
        detail: Integers | None = None
        if domain.values is not None:
            steps = domain.values.steps
            detail = turn % (2 * steps + 1) - steps
        elif self.detail.of_each:
            detail = turn % domain.shape[-1]
            if domain.score_columns > 1:
                detail = np.repeat(detail[:, np.newaxis], domain.score_columns, axis=1)
        return ClientRecords(domain, self.client_ids, owners, owners % self.groups, label, detail)
