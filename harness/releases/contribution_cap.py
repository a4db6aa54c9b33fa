"""π_CAP as a statistic: how many records of a client are to count, chosen with differential privacy."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from harness.errors import OutputError, RecordDomainError, named
from harness.inputs.record_schema import (
    DEFAULT_THRESHOLDS,
    MAX_CAP,
    MAX_THRESHOLDS,
    MAX_TOTAL,
    RecordDomain,
    RecordKind,
    caps_to_choose_from,
)
from harness.inputs.records import ClientRecords
from harness.releases.base import (
    OF_CLIENTS,
    AuditTarget,
    Declared,
    ExpectedCap,
    Files,
    Opened,
    PreparedRelease,
    Statistic,
    fitting,
    plan_release,
)
from harness.request.base import Request
from protocols.accounting.calibration import NeighboringRelation, Neighbors, NoisePlan
from protocols.arrays import Floats
from protocols.guarantee import Guarantee
from protocols.mechanisms.above_threshold import allowed_above
from protocols.mechanisms.count_tree import CountTree, best_tree
from protocols.noise.added import noise_sum
from protocols.spec import PI_CAP, ProtocolSpec

# What all clients lose alike cancels in ratios of counts, so they want a lower cap than counts do: so many
# times the clients above it. All as `./inv reproduce capping` found:
# docs/decisions/others.md#0021-choosing-a-cap
RATIOS, CURVE_RATIOS = 8, 16
CAP_SHARE = Fraction(1, 5)  # of epsilon and delta, for --cap auto
CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True)
class CapTarget:
    """The release that clients are to be capped for.

    Attributes: task: weights, confusion or thresholds, or counts; spends: its total; thresholds: how many, of
    curves; malleable_slots: whether its noise is for exchanged records, as in active models; counts:
    how many, if they are to err least as they are.
    """

    task: str
    spends: Guarantee
    thresholds: int = DEFAULT_THRESHOLDS
    malleable_slots: bool = False
    counts: int = 1

    def __post_init__(self) -> None:
        if not 2 <= self.thresholds <= MAX_THRESHOLDS or not 1 <= self.counts <= MAX_TOTAL:
            raise ValueError(f"a release has 2 to {MAX_THRESHOLDS} thresholds, and a count at least")

    def allowed_above(self, domain: RecordDomain) -> int:
        """Return how many clients should have more records than the cap, so that the release errs least.

        Computes: `above_threshold.allowed_above`. Counts: a record beyond the cap is in one of them. Weights:
        the counts of all cells, with `RATIOS` times as many clients; rates of predictions likewise, as they
        are ratios of counts, too. Curves: cumulative counts, one per cell and threshold, with `CURVE_RATIOS`
        times as many clients, as thresholds follow from rates. By the tree's exact variance the counts err by
        `counts_of_curves` times as much as one count with all of epsilon, added up, and evenly spread scores
        have a record in half of those of its cell. The tree is the best one for a cap of 1; errors grow in
        proportion to the cap, up to how the noise is rounded.
        Guarantees: the least error of such a sum, but for ratios.
        [test: tests/harness/releases/test_contribution_cap.py]
        """
        epsilon = self.spends.epsilon / 2 if self.malleable_slots else self.spends.epsilon
        cells = len(domain.groups) * len(domain.labels)
        if self.task == "counts":
            return allowed_above(epsilon, self.counts)
        if self.task in ("weights", "confusion"):
            predictions = len(domain.labels) if self.task == "confusion" else 1
            return allowed_above(epsilon / RATIOS, cells * predictions)
        neighbors = Neighbors(NeighboringRelation.ZERO_OUT_ONE, malleable_slots=self.malleable_slots)
        tree = best_tree(self.thresholds, neighbors, self.spends.epsilon, self.spends.delta)
        released = cells * counts_of_curves(tree)
        return allowed_above(epsilon / CURVE_RATIOS, released, (self.thresholds + 1) // 2)


def counts_of_curves(tree: CountTree) -> int:
    """Return the error of all of a tree's cumulative counts in units of that of one count without a tree.

    Computes: bins · levels · the root of their mean variance, as a node has the noise of an epsilon divided
    by the number of levels; rounded up.
    """
    return math.ceil(tree.bins * len(tree.blocks) * math.sqrt(tree.mean_variance()))


@dataclass(frozen=True)
class ChosenCap:
    """A cap, and what it was chosen from.

    Attributes: caps: the public grid; index: into it; above: how many clients were to have more at most;
    noise: by how many clients noise moves a comparison at most, with probability `CONFIDENCE`.
    """

    caps: tuple[int, ...]
    index: int
    above: int
    noise: int

    @property
    def cap(self) -> int:
        """The cap: how many records of a client count."""
        return self.caps[self.index]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `cap.json` but for the privacy statement."""
        return {"cap": self.cap, "caps": list(self.caps), "allowed_above": self.above, "noise": self.noise}


def _largest_grid(*_: object) -> Declared:
    """The most caps to choose from; fewer uncover less. How many clients may exceed one changes nothing."""
    return PI_CAP, {"queries": len(caps_to_choose_from(MAX_CAP)) - 1}


@dataclass(frozen=True)
class CapStatistic(Statistic[ChosenCap]):
    """The least cap that few enough clients exceed, up to noise. Args: target: the release that it is for."""

    target: CapTarget
    spec: ProtocolSpec = PI_CAP
    name = "cap"
    kind = RecordKind.SIZE
    audited: ClassVar = {"cap": AuditTarget({}, lambda _: 1, _largest_grid, OF_CLIENTS)}

    @classmethod
    def of(cls, request: Any) -> "CapStatistic":
        form = next(iter((request.curves or request.spec).input_forms.values()))
        target = CapTarget(
            request.release,
            Guarantee(request.release_epsilon, request.delta),
            request.thresholds or DEFAULT_THRESHOLDS,
            form.exchangeable,
            request.counts or 1,
        )
        return CapStatistic(target, request.spec)

    def allowed_above(self, release: Request, domain: RecordDomain) -> int:
        """Return how many clients may exceed the cap: more where the release that follows has more noise.

        Raises: OptionError: no noise fits that release.
        """
        malleable = self.target.malleable_slots and release.security.tolerates == "active"
        with fitting(release.epsilon, release.delta):
            return replace(self.target, malleable_slots=malleable).allowed_above(domain)

    @classmethod
    def read_files(cls, files: Files) -> ChosenCap:
        fields = files["cap.json"]
        caps = tuple(fields["caps"])
        return ChosenCap(caps, caps.index(fields["cap"]), fields["allowed_above"], fields["noise"])

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[ChosenCap]:
        caps = caps_to_choose_from(domain.max_count)
        if len(caps) == 1:
            raise RecordDomainError(
                f"A client has one record at most: there is no cap to choose; say {named('cap', 1)}."
            )
        above = self.allowed_above(release, domain)
        arguments = {"queries": len(caps) - 1, "above": above}
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> ChosenCap:  # noqa: ARG001
            index = opened["index"]
            if len(index) != 1 or not 0 <= index[0] < len(caps):
                raise OutputError("The parties revealed something else than the place of a cap in its grid.")
            return ChosenCap(caps, index[0], above, comparison_noise(plan))

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedCap:  # noqa: ARG002
        above = int(str(prepared.arguments["above"]))
        return ExpectedCap(
            caps_to_choose_from(prepared.domain.max_count), above, comparison_noise(prepared.plan)
        )


def comparison_noise(plan: NoisePlan) -> int:
    """Return by how many clients noise moves a comparison at most, with probability `CONFIDENCE`.

    Computes: noises of the count and of the bound: symmetric, so their difference is distributed as their
    sum.
    """
    return math.ceil(noise_sum(plan.coins, 2).quantile(float(1 - CONFIDENCE) / 2))


def sizes_alone(records: ClientRecords) -> ClientRecords:
    """Return the same records as far as a cap needs them: who has how many."""
    domain = replace(records.domain, kind=RecordKind.SIZE, thresholds=(), cap=None)
    return replace(records, domain=domain, detail=None)
