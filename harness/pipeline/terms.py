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
from harness.pipeline.party_inputs import sent_inputs
from harness.pipeline.run import RunSettings, make_job, terms_of
from harness.releases.base import Release, Statistic
from harness.releases.registry import STATISTICS
from harness.security_models import get_model
from harness.system.documents import Refusal, as_type
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.spec import CLIENTS

_ONLINE = {name: made() for name, made in STATISTICS.items() if made.online}  # what they open has no options
_POSITIVE = re.compile("[1-9][0-9]{0,199}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class Terms:
    """What clients are told, as `terms_of` says it. Attributes: relation: whom it protects."""

    statistic: Statistic[Any]
    release: Release
    domain: RecordDomain
    relation: NeighboringRelation

    def job(self, certificates: Sequence[str]) -> Job:
        """Return the job that keeps to these terms, for clients with these certificates (PEM).

        Raises: UnsupportedError, OptionError, ShareError: there is no such job.
        """
        release, domain = self.release, self.domain
        RunSettings(release).check_supported(self.statistic.spec)
        prepared = self.statistic.prepare(release, domain)
        terms = terms_of(self.statistic.name, release, domain)
        return make_job(prepared, sent_inputs(domain, certificates, release.form, release.model, terms))


@dataclass(frozen=True)
class _Told:
    """Terms as JSON has them."""

    task: str
    model: str
    input_form: str
    domain: dict[str, Any]
    epsilon: str
    delta: str
    neighboring_relation: str


def read_terms(told: Mapping[str, Any], where: str) -> Terms:
    """Return what terms say.

    Raises: ShareError: this version does not know such terms; RecordDomainError; `where` is named.
    """
    refusal = Refusal(ShareError, where, "for a run that this version can describe", "nothing was sent")
    said = as_type(_Told, told, refusal)
    try:
        statistic = _ONLINE[said.task]
        relation = NeighboringRelation(said.neighboring_relation)
        of_clients = relation is NeighboringRelation.ZERO_OUT_ONE
        release = Release(
            get_model(said.model),
            statistic.spec.input_forms[said.input_form].by(CLIENTS),
            _fraction(said.epsilon),
            _fraction(said.delta),
            relation,
            PrivacyUnit.CLIENT if of_clients else PrivacyUnit.RECORD,
        )
    except (KeyError, ValueError, OptionError):
        refusal.say("it names others than are known here")
    return Terms(statistic, release, domain_from_json(said.domain, where), relation)


def _fraction(text: str) -> Fraction:
    """Read a positive number as terms have it. Raises: ValueError."""
    if not _POSITIVE.fullmatch(text):
        raise ValueError(text)
    return Fraction(text)
