"""Requests for tests: of any input form, whatever their release's own forms are."""

from fractions import Fraction
from functools import cache

from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.request.request import DISTRIBUTED, DISTRIBUTED_GAUSSIAN, JOINT
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import InputForm


@cache
def _of_form(exact: InputForm) -> type[WeightsRequest]:
    class AnyForm(WeightsRequest):
        """A request whose form is the one that a test names, whatever its release's own forms are."""

        @property
        def form(self) -> InputForm:
            return exact

    return AnyForm


def request_of(
    model: SecurityModel,
    form: InputForm,
    epsilon: Fraction,
    delta: Fraction = Fraction(1, 2**40),
    *,
    relation: NeighboringRelation | None = None,
    unit: PrivacyUnit = PrivacyUnit.RECORD,
    distribution: NoiseDistribution | None = None,
) -> WeightsRequest:
    """Return a request. Args: distribution: of distributed noise; None: joint noise."""
    return _of_form(form)(
        epsilon=epsilon,
        delta=delta,
        security=model,
        input_form=form.name,
        input_path=form.path,
        neighboring_relation=relation,
        privacy_unit=unit,
        noise={
            None: JOINT,
            NoiseDistribution.LAPLACE: DISTRIBUTED,
            NoiseDistribution.GAUSSIAN: DISTRIBUTED_GAUSSIAN,
        }[distribution],
    )
