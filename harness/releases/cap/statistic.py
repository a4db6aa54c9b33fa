"""π_CAP as a statistic: a client's contribution bound."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from fairshares.harness.bounds import Size
from fairshares.harness.errors import OutputError, RecordDomainError, named
from fairshares.harness.inputs.record_schema import (
    DEFAULT_THRESHOLDS,
    MAX_CAP,
    RecordDomain,
    RecordKind,
    caps_to_choose_from,
)
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.releases.base import (
    OF_CLIENTS,
    Answer,
    AuditTarget,
    BoundedRelease,
    ExpectedResult,
    OpenedLines,
    PreparedRelease,
    Statistic,
    fitting,
    plan_release,
    statistic_class,
)
from fairshares.harness.releases.cap.request import COUNTS, CapRequest
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.files import ResultFile, needed_file
from fairshares.harness.request.request import Request
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors, NoisePlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.mechanisms.above_threshold import allowed_above
from fairshares.protocols.noise.added import noise_sum
from fairshares.protocols.spec import ProtocolSpec

CAP_SHARE = Fraction(1, 5)  # a share of epsilon and delta, for --cap auto


@dataclass(frozen=True)
class CapTarget:
    """The release that the bound is for.

    Attributes:
        task: The name of the release.
        spends: The guarantee that it will have.
        thresholds: The number of thresholds of curves.
        malleable_slots: Whether its noise is for exchanged records, as in active models.
        counts: The number of counts, if it is no release here.
    """

    task: str
    spends: Guarantee
    thresholds: int = DEFAULT_THRESHOLDS
    malleable_slots: bool = False
    counts: int = 1

    def allowed_above(self, domain: RecordDomain) -> int:
        """Return how many clients should exceed the bound, so that the release errs least.

        Computes: `Statistic.clients_above_cap` of the release; for counts that no release here makes,
        `above_threshold.allowed_above`.
        Guarantees: the least error of such a sum, except for ratios.
        [test: tests/harness/releases/test_contribution_cap.py]
        """
        neighbors = Neighbors(NeighboringRelation.ZERO_OUT_ONE, malleable_slots=self.malleable_slots)
        release = BoundedRelease(domain, self.spends, neighbors, self.thresholds)
        if self.task == COUNTS:
            return allowed_above(release.epsilon_of_a_record, self.counts)
        return statistic_class(self.task).clients_above_cap(release)


class CapFile(Struct, frozen=True, kw_only=True):
    """`cap.json`."""

    file_name: ClassVar[str] = "cap.json"
    schema: Literal[1] = 1
    cap: Annotated[int, Meta(ge=1, le=MAX_CAP)]
    caps: Annotated[list[Annotated[int, Meta(ge=1, le=MAX_CAP)]], Meta(max_length=MAX_CAP)]
    allowed_above: Size
    noise: Size
    privacy: StatedPrivacy


@dataclass(frozen=True)
class ExpectedCap(ExpectedResult):
    """The fields of `ChosenCap` that are known before a choice."""

    caps: tuple[int, ...]
    above: int
    noise: int

    def to_json(self) -> dict[str, JsonValue]:
        return {"of": "cap", "caps": list(self.caps), "allowed_above": self.above, "noise": self.noise}


@dataclass(frozen=True)
class ChosenCap:
    """A contribution bound, as an index into the public candidates.

    Attributes:
        caps: The candidates.
        index: The index of the bound.
        above: How many clients were to exceed it at most.
        noise: The number of clients by which noise may have moved the comparisons, with probability
            `CONFIDENCE`.
    """

    caps: tuple[int, ...]
    index: int
    above: int
    noise: int

    @property
    def cap(self) -> int:
        """The bound."""
        return self.caps[self.index]

    def files(self, privacy: StatedPrivacy) -> tuple[CapFile]:
        """Return `cap.json`."""
        file = CapFile(
            cap=self.cap, caps=list(self.caps), allowed_above=self.above, noise=self.noise, privacy=privacy
        )
        return (file,)


class _LargestGrid(AuditTarget):
    """The target of a choice among the most candidates.

    Fewer candidates reveal less, and how many clients may be above the cap has no effect.
    """

    def cells(self, sizes: Mapping[str, int]) -> int:  # noqa: ARG002
        return 1

    def arguments(self, sizes: Mapping[str, int]) -> dict[str, int | str]:  # noqa: ARG002
        return {"queries": len(caps_to_choose_from(MAX_CAP)) - 1}


@dataclass(frozen=True)
class CapStatistic(Statistic[ChosenCap]):
    """The least bound that few enough clients exceed, up to noise."""

    target: CapTarget
    spec: ProtocolSpec = PI_CAP
    name = "cap"
    file_types = (CapFile,)
    kind = RecordKind.SIZE
    audited: ClassVar = {
        "cap": _LargestGrid(spec=PI_CAP, sizes={}, relations=OF_CLIENTS, counts_records=False)
    }

    @classmethod
    def for_request(cls, request: Request) -> "CapStatistic":
        assert isinstance(request, CapRequest)
        input_forms = (request.bounded_variant or request.spec).input_forms
        usual_form = next(iter(input_forms.values()))
        target = CapTarget(
            task=request.release,
            spends=Guarantee(request.release_epsilon, request.protect.delta),
            thresholds=request.thresholds or DEFAULT_THRESHOLDS,
            malleable_slots=usual_form.exchangeable,
            counts=request.counts or 1,
        )
        return CapStatistic(target, request.spec)

    def allowed_above(self, release: Request, domain: RecordDomain) -> int:
        """Return how many clients may exceed the bound, or raise OptionError."""
        malleable = self.target.malleable_slots and release.model.tolerates == "active"
        with fitting(release.protect.epsilon, release.protect.delta):
            return replace(self.target, malleable_slots=malleable).allowed_above(domain)

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> ChosenCap:
        file = needed_file(files, CapFile)
        return ChosenCap(
            caps=tuple(file.caps),
            index=file.caps.index(file.cap),
            above=file.allowed_above,
            noise=file.noise,
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[ChosenCap]:
        caps = caps_to_choose_from(domain.max_count)
        if len(caps) == 1:
            raise RecordDomainError(
                f"A client has one record at most: there is no cap to choose; say {named('cap', 1)}."
            )
        above = self.allowed_above(release, domain)
        arguments = {"queries": len(caps) - 1, "above": above}
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(
        self,
        prepared: PreparedRelease[ChosenCap],
        opened: OpenedLines,
        clients: int,  # noqa: ARG002
    ) -> ChosenCap:
        caps = caps_to_choose_from(prepared.domain.max_count)
        above = above_of(prepared)
        index = opened["index"]
        if len(index) != 1 or not 0 <= index[0] < len(caps):
            raise OutputError("The parties revealed something else than the place of a cap in its grid.")
        return ChosenCap(caps, index=index[0], above=above, noise=comparison_noise(prepared.plan))

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedCap:  # noqa: ARG002
        return ExpectedCap(
            caps_to_choose_from(prepared.domain.max_count),
            above=above_of(prepared),
            noise=comparison_noise(prepared.plan),
        )


def above_of(prepared: PreparedRelease[Answer]) -> int:
    """Return how many clients may be above the cap that is chosen, by the program's arguments."""
    return int(str(prepared.arguments["above"]))


def comparison_noise(plan: NoisePlan) -> int:
    """Return how many clients noise moves a comparison by at most, with probability `CONFIDENCE`."""
    return math.ceil(noise_sum(plan.coins, 2).quantile(float(1 - CONFIDENCE) / 2))


def sizes_alone(records: ClientRecords) -> ClientRecords:
    """Return only how many records each client has."""
    domain = replace(records.domain, kind=RecordKind.SIZE, thresholds=(), cap=None)
    return replace(records, domain=domain, detail=None)


STATISTIC = CapStatistic
