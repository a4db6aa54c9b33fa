"""Requests for tests: of any input form, whatever their release's own forms are."""

from fractions import Fraction
from typing import Any

from harness.request.base import JOINT, OWN, OWN_GAUSSIAN
from harness.request.releases import WeightsRequest
from harness.security_models import Model
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.noise.added import NoiseLaw
from protocols.spec import InputForm


class AnyForm(WeightsRequest):
    """A request whose form is the one that a test names."""

    form: Any = None


def request_of(
    model: Model,
    form: InputForm,
    epsilon: Fraction,
    delta: Fraction = Fraction(1, 2**40),
    relation: NeighboringRelation | None = None,
    unit: PrivacyUnit = PrivacyUnit.RECORD,
    law: NoiseLaw | None = None,
) -> AnyForm:
    """Return a request. Args: law: of the parties' own noise; None: joint noise."""
    return AnyForm(epsilon=1).but(
        epsilon=epsilon,
        delta=delta,
        model=model,
        form=form,
        input_form=form.name,
        input_path=form.path,
        neighboring_relation=relation,
        privacy_unit=unit,
        noise={None: JOINT, NoiseLaw.LAPLACE: OWN, NoiseLaw.GAUSSIAN: OWN_GAUSSIAN}[law],
    )
