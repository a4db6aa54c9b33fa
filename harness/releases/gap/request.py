"""What a run of `gap` is asked for."""

from __future__ import annotations

from typing import ClassVar

from fairshares.harness.request.base import Inputs, Protect, Randomness, Request
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import Part
from fairshares.harness.request.releases import DeclaredDomain, ReleaseCall, Source


class GapRequest(Request):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

    task = "gap"
    protocols: ClassVar = {"sums": "pi_gap"}
    slots = "pi_gap_slots"

    protect = Part(
        Protect,
        without=("cap", "cap_epsilon"),
        privacy_unit={
            "help": "record (default: a client's value replaced or removed), or client (all it sends, there "
            "or not)"
        },
        neighboring_relation={
            "help": "replace_one (default: a client's group and value) or add_or_remove_one"
        },
    )
    randomness = Part(Randomness)
    inputs = Part(
        Inputs,
        without=("chain",),
        input_form={
            "help": "split (default: the value and the size, in the client's group) or slots (default with "
            "--privacy-unit client: no client can go beyond the range)"
        },
    )


class GapCall(ReleaseCall):
    """A call of `gap`, of performance values."""

    also = "--records values.csv --groups a,b --range 0,1"

    request = Part(GapRequest)
    source = Part(
        Source,
        records={"help": "CSV or Parquet with group, value: a number, or a fraction of counts as 17/20"},
    )
    declares = Part(
        DeclaredDomain,
        without=("labels", "max_count"),
        domain={
            "help": 'JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps '
            "optional"
        },
        groups={"help": "all groups, for example a,b; with --range, instead of --domain"},
    )


class GapOptions(ReleaseOptions):
    """The options of `gap`."""

    call = Part(GapCall)
