"""What clients who send to a run are told of it, read back; and the job that keeps to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.engines.base import Job
from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.pipeline.party_inputs import feed_sent
from harness.pipeline.run import Settings, Statistic, check_supported, make_job, plan_release, terms_of
from harness.releases.weights import WeightsStatistic
from harness.security_models import get_model
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.spec import CLIENTS

_STATISTICS = {"weights": WeightsStatistic()}  # that clients can send to; all schemes open the same
_POSITIVE = re.compile("[1-9][0-9]{0,199}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class Terms:
    """What clients are told, as `terms_of` says it. Attributes: relation: whom it protects."""

    statistic: Statistic[Any]
    settings: Settings
    domain: RecordDomain
    relation: NeighboringRelation

    def job(self, certificates: Sequence[str]) -> Job:
        """Return the job that keeps to these terms, for clients with these certificates (PEM).

        Raises: UnsupportedError, OptionError, ShareError: there is no such job.
        """
        statistic, settings, domain = self.statistic, self.settings, self.domain
        check_supported(statistic.spec, settings)
        plan, told = plan_release(statistic, settings, domain), terms_of(statistic, settings, domain)
        fed = feed_sent(domain, certificates, settings.form, settings.model, told)
        return make_job(statistic, settings, plan, fed)


def read_terms(told: Mapping[str, Any], where: str) -> Terms:
    """Return what terms say.

    Raises: ShareError: this version does not know such terms; RecordDomainError; `where` is named.
    """
    said = {name: str(value) for name, value in told.items()}
    try:
        statistic = _STATISTICS[said["task"]]
        relation = NeighboringRelation(said["neighboring_relation"])
        of_clients = relation is NeighboringRelation.ZERO_OUT_ONE
        settings = Settings(
            get_model(said["model"]),
            statistic.spec.input_forms[said["input_form"]].by(CLIENTS),
            _fraction(said["epsilon"]),
            _fraction(said["delta"]),
            relation,
            PrivacyUnit.CLIENT if of_clients else PrivacyUnit.RECORD,
        )
    except (KeyError, ValueError, OptionError):
        raise ShareError(
            f"{where} is for a run that this version cannot describe; nothing was sent."
        ) from None
    return Terms(statistic, settings, domain_from_json(told.get("domain"), where), relation)


def _fraction(text: str) -> Fraction:
    """Read a positive number as terms have it. Raises: ValueError."""
    if not _POSITIVE.fullmatch(text):
        raise ValueError(text)
    return Fraction(text)
