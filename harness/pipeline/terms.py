"""What clients and hosts are told of a run, read back: it decides all that the run reveals of anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.releases.base import Release, Statistic
from harness.releases.registry import STATISTICS, options_to_json, positive, statistic_from_json
from harness.security_models import get_model
from harness.system.documents import Refusal, as_type
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.noise.tables import NoiseLaw
from protocols.spec import CLIENTS, PATHS


@dataclass(frozen=True)
class Terms:
    """What clients are told, as `terms_of` says it. Attributes: relation: whom it protects."""

    statistic: Statistic[Any]
    release: Release
    domain: RecordDomain
    relation: NeighboringRelation


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
    law: str = ""  # of the parties' own noise


def read_terms(told: Mapping[str, Any], where: str) -> Terms:
    """Return what terms say.

    Raises: ShareError: this version does not know such terms; RecordDomainError; `where` is named.
    """
    refusal = Refusal(ShareError, where, "for a run that this version can describe", "nothing was sent")
    said = as_type(_Told, told, refusal)
    try:
        if not STATISTICS[said.task].online:
            raise KeyError(said.task)
        statistic = STATISTICS[said.task]()  # what is online has no options
        relation = NeighboringRelation(said.neighboring_relation)
        of_clients = relation is NeighboringRelation.ZERO_OUT_ONE
        release = Release(
            get_model(said.model),
            statistic.spec.input_forms[said.input_form].by(CLIENTS),
            positive(said.epsilon),
            positive(said.delta),
            relation,
            PrivacyUnit.CLIENT if of_clients else PrivacyUnit.RECORD,
            law_from_json(said.law),
        )
    except (KeyError, ValueError, OptionError):
        refusal.say("it names others than are known here")
    return Terms(statistic, release, domain_from_json(said.domain, where), relation)


def law_from_json(told: str) -> NoiseLaw | None:
    """Return the law of parties' own noise, None where it is joint. Raises: ValueError: there is none."""
    return NoiseLaw(told) if told else None


@dataclass(frozen=True)
class Asked:
    """A release that a host is asked to take part in, of whichever records there are.

    Attributes: task, protocol, options: the statistic, see `statistic_from_json`; relation: None for the
    records' default; population: whose records they are, None if nobody is named.
    """

    task: str
    protocol: str
    options: dict[str, Any]
    model: str
    input_form: str
    input_path: str
    epsilon: str
    delta: str
    relation: str | None
    unit: str
    population: str | None
    law: str  # of the parties' own noise, "" where it is joint

    def statistic_and_release(self) -> tuple[Statistic[Any], Release]:
        """Return what it stands for. Raises: OptionError: this version does not know it."""
        try:
            statistic = statistic_from_json(self.task, self.protocol, self.options)
            release = Release(
                get_model(self.model),
                statistic.spec.input_forms[self.input_form].by(PATHS[self.input_path]),
                positive(self.epsilon),
                positive(self.delta),
                None if self.relation is None else NeighboringRelation(self.relation),
                PrivacyUnit(self.unit),
                law_from_json(self.law),
            )
        except (KeyError, TypeError, ValueError):
            raise OptionError(
                f"The run that is asked for ({self.task[:20]}) is none that this version knows; both "
                "machines need the same commit."
            ) from None
        return statistic, release


def asked_of(statistic: Statistic[Any], release: Release, population: str | None) -> Asked:
    """Return what a host is asked."""
    return Asked(
        statistic.name,
        statistic.spec.name,
        options_to_json(statistic),
        release.model.name,
        release.form.name,
        release.form.path.name,
        str(release.epsilon),
        str(release.delta),
        None if release.relation is None else str(release.relation),
        str(release.unit),
        population,
        "" if release.law is None else str(release.law),
    )
