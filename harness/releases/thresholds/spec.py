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
        """Return the sums of the program's circuit."""
        bins = int(arguments["bins"])
        histograms = cells_of(arguments)
        columns = histograms * bins
        sizes = block_sizes(arguments["blocks"])
        blocks = block_sums(ColumnNames, ColumnNames.first(columns), histograms, bins, sizes)
        return Sums(columns, blocks.sums)

    def records(self, arguments: Mapping[str, str], /) -> list[dict[int, int]] | None:
        """Return records of several scores, if there are `score_columns` sets of groups.

        The list has the records whose scores are all in the same bin. Other records change as many nodes.
        """
        sets = int(arguments.get("score_columns", 1))
        if sets == 1:
            return None
        groups = int(arguments["groups"]) // sets
        bins = int(arguments["bins"])
        records = []
        for group, label, score in product(range(groups), range(sets), range(bins)):
            record = {}
            for score_column in range(sets):
                is_positive = label == score_column
                histogram = (score_column * groups + group) * 2 + is_positive
                record[histogram * bins + score] = 1
            records.append(record)
        return records


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
    compared=lambda arguments: int(arguments["records"]),  # keys are opened under masks
)

SPECS = (
    PI_ROC,
    PI_ROC_RECORDS,
)
