"""Inputs of measured runs, made up: random records."""

import zlib
from dataclasses import dataclass, replace

import numpy as np

from fairshares.harness.hosts.trials import SEED, TERMS, inputs_of_size
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.sources import PartyInputs, RecordsSource, RunContext, Source
from fairshares.harness.privacy.stock import Piece
from fairshares.protocols.arrays import Integers
from fairshares.protocols.spec import CLIENTS


def made_up(size: FederationSize) -> ClientRecords:
    """Return uniform, independent records, spread evenly over the clients, each of one group.

    The same size always has the same records, whatever its cap.
    """
    seed = zlib.crc32(repr(replace(size, cap=0)).encode())
    rng = np.random.default_rng([SEED, seed])
    domain = size.domain
    owners = size.owners
    records = len(owners)
    label = np.zeros_like(owners)
    if size.detail is not RecordKind.VALUE:
        label = rng.integers(size.labels, size=records)
    detail: Integers | None = None
    if domain.values is not None:
        steps = domain.values.steps
        detail = rng.integers(-steps, steps, size=records, endpoint=True)
    elif size.detail.of_each:
        shape = (records, domain.score_columns) if domain.score_columns > 1 else (records,)
        detail = rng.integers(domain.shape[-1], size=shape)
    groups = rng.integers(size.groups, size=size.clients)
    return ClientRecords(domain, size.client_ids, owners, groups[owners], label, detail)


@dataclass(frozen=True)
class SourceAtHosts(Source):
    """Made-up records, which hosts make themselves, unless clients in this process send them."""

    size: FederationSize

    def describe(self, run: RunContext) -> PartyInputs:
        return inputs_of_size(self.size, run.release.form)

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:
        if run.release.form.path is not CLIENTS:
            return described
        return RecordsSource(made_up(self.size), TERMS).deliver(run, described, piece)
