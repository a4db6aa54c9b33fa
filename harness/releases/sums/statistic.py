"""A sum of clients' vectors as a statistic: Gaussian noise for all reveals that the task declares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from fairshares.harness.bounds import Count, Positive, Size
from fairshares.harness.errors import OptionError, OutputError, ShareError, named
from fairshares.harness.inputs.record_schema import MOST_REVEALS, RecordDomain, RecordKind, VectorGrid
from fairshares.harness.inputs.updates import MAX_COORDINATES, MOST_UNITS, UpdateRule
from fairshares.harness.postprocessing.noisy_counts import within
from fairshares.harness.releases.base import (
    Answer,
    AuditTarget,
    ExpectedResult,
    OpenedLines,
    PreparedRelease,
    Statistic,
    fitting,
)
from fairshares.harness.releases.files import ResultFile, needed_file
from fairshares.harness.releases.sums.spec import PI_ROUNDS_OF_UPLOADS
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import Neighbors, NoisePlan
from fairshares.protocols.accounting.rounding import exact_text
from fairshares.protocols.accounting.rounds import RoundsPlan, plan_rounds
from fairshares.protocols.arrays import Floats
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import ProtocolSpec


class SumsFile(Struct, frozen=True, kw_only=True):
    """`sums.json`. The noisy sum is in the vectors' own units."""

    file_name: ClassVar[str] = "sums.json"
    schema: Literal[1] = 1
    reveal: Annotated[int, Meta(ge=1, le=MOST_REVEALS)]
    reveals: Annotated[int, Meta(ge=1, le=MOST_REVEALS)]
    participations: Annotated[int, Meta(ge=1, le=MOST_REVEALS)] | UnsetType = UNSET
    clip: Positive
    largest_weight: Positive
    units: Annotated[int, Meta(ge=1, le=MOST_UNITS)]
    vectors: Size
    noisy_sum: Annotated[list[Count], Meta(min_length=1, max_length=MAX_COORDINATES)]
    privacy: StatedPrivacy


@dataclass(frozen=True, eq=False)
class NoisySum:
    """The noisy sum of a reveal's vectors.

    Attributes:
        declared: The part of the task that declares vectors, with the number of the reveal.
        vectors: The number of vectors in the sum.
        noisy_sum: The sum, in the vectors' own units, shape (coordinates,).
    """

    declared: VectorGrid
    vectors: int
    noisy_sum: Floats = field(repr=False)

    def files(self, privacy: StatedPrivacy) -> tuple[SumsFile]:
        """Return `sums.json`."""
        file = SumsFile(
            reveal=self.declared.reveal,
            reveals=self.declared.reveals,
            participations=self.declared.participations or UNSET,
            clip=self.declared.clip,
            largest_weight=self.declared.largest_weight,
            units=self.declared.rule.units,
            vectors=self.vectors,
            noisy_sum=self.noisy_sum.tolist(),
            privacy=privacy,
        )
        return (file,)


@lru_cache(maxsize=8)  # a host asks at each step of a run
def _noise_of(
    rule: UpdateRule, most_of_a_client: int, total: Guarantee, distributed: tuple[int, int] | None
) -> RoundsPlan:
    """Return the noise of reveals, of which a client is in so many, by a rule; else as `plan_rounds`."""
    return plan_rounds(
        rule.squares, rule.coordinates, most_of_a_client, total.epsilon, total.delta, distributed=distributed
    )


def _has_noise(vectors: VectorGrid, most: Guarantee, model: SecurityModel, *, is_distributed: bool) -> bool:
    """Return whether there is noise of a kind for all reveals of vectors on their grid."""
    parties = (model.parties, model.parties - model.corruptions) if is_distributed else None
    try:
        _noise_of(vectors.rule, vectors.most_of_a_client, most, parties)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class SumsStatistic(Statistic[NoisySum]):
    """Sums of vectors, whose noise is for all declared reveals together."""

    spec: ProtocolSpec = PI_ROUNDS_OF_UPLOADS
    name = "sums"
    kind = RecordKind.VECTOR
    file_types = (SumsFile,)
    audited: ClassVar[Mapping[str, AuditTarget]] = {}

    @classmethod
    def domain_of_task(cls, domain: RecordDomain, most: Guarantee, model: SecurityModel) -> RecordDomain:
        """Check the vectors' grid; choose it, if none is declared: the finest with noise of both kinds.

        It is no finer than needed: rounding adds at most 4 % to a norm. Noise is a table, or a sum of bits,
        and both have an end: a coarser grid has less noise in its units. A declared grid needs noise of one
        kind, as a task's reveals have one kind.
        [test: tests/harness/releases/test_sums.py::test_a_task_has_a_grid_for_which_there_is_noise]

        Raises OptionError if there is no noise for any grid, or for the declared one.
        """
        vectors = domain.vectors
        if vectors is None:
            return domain
        if vectors.units:
            if not any(_has_noise(vectors, most, model, is_distributed=kind) for kind in (True, False)):
                raise OptionError(
                    f"No noise at {named('epsilon', exact_text(most.epsilon))} is as large as a grid of "
                    f"{vectors.units} units needs; declare fewer units, or leave them out for the usual grid."
                )
            return domain
        units = vectors.rule.units
        while True:
            tried = replace(vectors, units=units)
            if all(_has_noise(tried, most, model, is_distributed=kind) for kind in (True, False)):
                return replace(domain, vectors=tried)
            if units == 1:
                raise OptionError(
                    f"There is no noise for {vectors.most_of_a_client} reveals of such vectors at "
                    f"{named('epsilon', exact_text(most.epsilon))}; declare fewer reveals, or more ε."
                )
            units //= 2

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[NoisySum]:
        """Work out the noise of one reveal.

        Guarantees: the exact loss is the loss of all declared reveals together, however later vectors depend
        on earlier sums, and whichever reveals are used. Where the task keeps a client to some of them, it is
        the loss of a client that is in no more, whichever these are (theorem 4).
        [test: tests/harness/releases/test_sums.py, tests/protocols/test_rounds.py]

        Raises:
            ShareError: The vectors were sealed for another reveal than the one that is asked for.
            OptionError: No noise fits the guarantee that was asked for.
        """
        vectors = domain.vectors
        assert vectors is not None  # as the kind says
        number = None if release.series is None else release.series.number
        if vectors.reveal not in (0, number):  # 0 where its noise is made ahead
            raise ShareError(
                f"These vectors were sealed for reveal {vectors.reveal}, and this is reveal "
                f"{number}; have clients seal for it."
            )
        rule = vectors.rule
        distributed = None
        own = release.own
        if own is not None:
            distributed = (own.parties, own.parties - own.tolerated)
        total = release.protect.guarantee
        with fitting(total.epsilon, total.delta):
            planned = _noise_of(rule, vectors.most_of_a_client, total, distributed)
        rate = Fraction(0)
        noise_of_party = None
        if isinstance(planned.noise, DistributedNoise):
            noise_of_party = planned.noise
            rate = planned.noise.rate
        plan = NoisePlan(
            neighbors=Neighbors(release.relation_in(domain)),
            nodes=rule.coordinates,
            changed=rule.squares,
            node_epsilon=rate,
            node_delta_bits=0,
            coins=(),
            exact=planned.exact,
            largest=rule.largest,
            own=noise_of_party,
            rounds=planned,
        )
        arguments = {"rounds": 1, "coordinates": rule.coordinates}
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(self, prepared: PreparedRelease[NoisySum], opened: OpenedLines, clients: int) -> NoisySum:
        vectors = prepared.domain.vectors
        planned = prepared.plan.rounds
        assert vectors is not None and planned is not None  # as `prepare` has them
        (values,) = opened.values()
        if len(values) != vectors.coordinates:
            raise OutputError(f"The parties revealed {len(values)} sums where {vectors.coordinates} belong.")
        noise = planned.noise.largest
        if isinstance(planned.noise, DistributedNoise):
            noise *= planned.noise.parties
        most = clients * vectors.rule.largest + noise
        possible = within(values, -most, most)
        return NoisySum(vectors, clients, vectors.rule.decode(np.array(possible, dtype=np.float64)))

    def expected_error(
        self,
        prepared: PreparedRelease[Answer],  # noqa: ARG002
        sizes: Floats,  # noqa: ARG002
    ) -> ExpectedResult:
        raise OptionError("Plans know nothing of sums of vectors; a session's `plan` has their noise.")

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> NoisySum:
        file = needed_file(files, SumsFile)
        declared = VectorGrid(
            coordinates=len(file.noisy_sum),
            clip=file.clip,
            reveals=file.reveals,
            participations=file.participations or 0,
            largest_weight=file.largest_weight,
            units=file.units,
            reveal=file.reveal,
        )
        return NoisySum(declared, file.vectors, np.array(file.noisy_sum, dtype=np.float64))


STATISTIC = SumsStatistic
