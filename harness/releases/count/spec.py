"""The programs of π_COUNT: what each takes, and what it reveals."""

from collections.abc import Mapping
from dataclasses import replace

from fairshares.protocols.accounting.calibration import logarithms
from fairshares.protocols.mechanisms.shifted_log import ShiftedLog
from fairshares.protocols.spec import AT_REST, SPLIT, ProtocolSpec, cells_of


def _distribution(arguments: Mapping[str, str]) -> ShiftedLog:
    return ShiftedLog(int(arguments["offset"]), int(arguments["most"]))


PI_COUNT = ProtocolSpec(
    name="pi_count",
    source="the open problem of Pujol and Desfontaines; shifted logarithm, Finley et al. 2024",
    arguments=("parties", "groups", "labels", "offset", "most", "epsilon", "delta_bits"),
    input_forms={SPLIT.name: replace(SPLIT, public=(*SPLIT.public, "offset", "largest count"), capped=None)},
    input_paths=AT_REST,
    outputs=("logarithms",),
    revealed=("noisy logarithm of the number of records per (group, label), to all parties",),
    release=lambda arguments: logarithms(cells_of(arguments), _distribution(arguments).first_step),
    uses_edabits=False,
    linear=False,
    compared=lambda arguments: cells_of(arguments) * _distribution(arguments).lines_above_first,
    noise_made_ahead=True,
)

SPECS = (PI_COUNT,)
