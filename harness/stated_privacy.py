"""Losses and guarantees, as manifests and result files state them.

`docs/reference/files.md` says what the fields mean. An exact number is a text in a file and a
`Fraction` here; see `fairshares.harness.system.documents.as_type`.
"""

from fractions import Fraction
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fairshares.harness.bounds import NotNegative, Size
from fairshares.harness.inputs.record_schema import MAX_CAP, MOST_REVEALS
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee

SecurityBits = Annotated[int, Meta(ge=0, le=4096)]
"""b: the engine's security fails with probability 2^-b at most."""


class StatedLoss(Struct, frozen=True, kw_only=True):
    """A guarantee's exact ε and δ."""

    epsilon: Fraction
    delta: Fraction

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee."""
        return Guarantee(self.epsilon, self.delta)


class StatedPrivacy(Struct, frozen=True, kw_only=True):
    """The field `privacy` of a manifest and of a result file.

    `epsilon` and `delta` are rounded up. A field that does not apply is not set, and missing in the file.
    Guarantees: no stated ε or δ is below the exact one; ValueError else, whether a run or a file states it.
    [test: tests/harness/system/test_hostile_files.py]
    """

    epsilon: NotNegative
    delta: Annotated[float, Meta(ge=0, le=1)]
    epsilon_exact: Fraction
    delta_exact: Fraction
    epsilon_requested: Fraction
    neighboring_relation: NeighboringRelation
    privacy_unit: PrivacyUnit
    mpc_statistical_security_bits: SecurityBits | None
    input_form: str
    input_path: str
    revealed: list[str]
    cap: Annotated[int, Meta(ge=1, le=MAX_CAP)] | Literal["weight-one"] | UnsetType = UNSET
    cap_kept_by: str | UnsetType = UNSET
    if_replaced: StatedLoss | UnsetType = UNSET
    noise_for: str | UnsetType = UNSET
    noise: Literal["distributed"] | UnsetType = UNSET
    noise_family: Literal["symmetric"] | UnsetType = UNSET
    distribution: str | UnsetType = UNSET
    honest_parties: Size | UnsetType = UNSET
    shifted: str | UnsetType = UNSET
    made_ahead: bool | UnsetType = UNSET
    assumed: str | UnsetType = UNSET
    participations: Annotated[int, Meta(ge=1, le=MOST_REVEALS)] | UnsetType = UNSET
    public: list[str]
    end_to_end: str

    def __post_init__(self) -> None:
        if not self.epsilon_exact <= self.epsilon:
            raise ValueError("its epsilon is less than the exact one")
        if not self.delta_exact <= self.delta:
            raise ValueError("its delta is less than the exact one")

    @property
    def exact(self) -> Guarantee:
        """The exact guarantee."""
        return Guarantee(self.epsilon_exact, self.delta_exact)


def state_loss(loss: Guarantee) -> StatedLoss:
    """Return a guarantee as files state it."""
    return StatedLoss(epsilon=loss.epsilon, delta=loss.delta)
