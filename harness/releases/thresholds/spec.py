"""The programs of π_ROC: what each takes, and what it reveals."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from fairshares.protocols.circuits.blocks import block_sizes, block_sums
from fairshares.protocols.spec import (
    AT_REST,
    KEYS,
    SCORED_SPLIT,
    ColumnNames,
    ColumnSums,
    ProtocolSpec,
    Sums,
    cells_of,
)


@dataclass(frozen=True)
class BlocksOfBins(ColumnSums):
    """The release of counts of blocks of neighboring bins, as `protocols.circuits.blocks` adds them up."""

    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return what the circuit of the program adds up."""
        bins, histograms = int(arguments["bins"]), cells_of(arguments)
        columns = ColumnNames.first(histograms * bins)
        blocks = block_sums(ColumnNames, columns, histograms, bins, block_sizes(arguments["blocks"]))
        return Sums(histograms * bins, blocks.sums)

    def records(self, arguments: Mapping[str, str], /) -> list[dict[int, int]] | None:
        """Return records of several scores, if there are `score_columns` sets of groups.

        Listed are records with all scores in one bin; others move as many nodes.
        """
        sets = int(arguments.get("score_columns", 1))
        if sets == 1:
            return None
        groups, bins, columns = int(arguments["groups"]) // sets, int(arguments["bins"]), range(sets)
        return [
            {((column * groups + group) * 2 + (label == column)) * bins + score: 1 for column in columns}
            for group, label, score in product(range(groups), columns, range(bins))
        ]


PI_ROC = ProtocolSpec(
    name="pi_roc",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 4",
    arguments=("parties", "groups", "labels", "bins", "blocks", "epsilon", "delta_bits"),
    input_forms={SCORED_SPLIT.name: SCORED_SPLIT},
    input_paths=AT_REST,
    outputs=("nodes",),
    revealed=("noisy counts of records per (group, label, block of neighboring score bins), to all parties",),
    release=BlocksOfBins(),
    distributed_noise=True,
)

PI_ROC_RECORDS = replace(
    PI_ROC,
    name="pi_roc_records",
    arguments=("parties", "records", "groups", "labels", "bins", "blocks", "epsilon", "delta_bits"),
    input_forms={KEYS.name: KEYS},
    portable=False,  # loops, and memory of secret bits
    counts_keys_of=PI_ROC,
    records_at_once=True,
)

SPECS = (
    PI_ROC,
    PI_ROC_RECORDS,
)
