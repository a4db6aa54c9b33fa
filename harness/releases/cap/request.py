"""The options of a run of `cap`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named, refuse
from fairshares.harness.request.commands import InsteadOfARun, ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, optional, required, usual
from fairshares.harness.request.readers import OneOf, Whole, as_given, in_module, parse_choice, parse_epsilon
from fairshares.harness.request.releases import DeclaredDomain, ReleaseCall
from fairshares.harness.request.request import Protect, Request, Where

if TYPE_CHECKING:
    from fairshares.protocols.spec import ProtocolSpec

COUNTS = "counts"  # several counts, each record in one of them, which no release here makes
# The list of releases includes this module's release, so what is in it is looked up at the last moment.
_CAPPED_RELEASES = in_module("fairshares.harness.releases.registry:capped_releases")
_REQUESTS = in_module("fairshares.harness.releases.registry:REQUESTS")


def _releases_with_a_cap() -> tuple[str, ...]:
    """Return the names of what a contribution bound may be chosen for."""
    return (*_CAPPED_RELEASES()(), COUNTS)


def _releases_with_variants() -> list[str]:
    """Return the names of the releases with variants that a contribution bound may be chosen for."""
    return [task for task, kind in _REQUESTS().items() if kind.capped_variants]


class CapRequest(Request):
    """Choose how many records of a client are to count, with differential privacy (π_CAP)."""

    task = "cap"
    protocols: ClassVar = {"index": "pi_cap"}

    protect = OptionGroup(
        Protect,
        without=("neighboring_relation", "cap", "cap_epsilon"),
        fixed={"privacy_unit": "client"},
    )
    release = usual(
        "weights",
        OneOf(_releases_with_a_cap),
        "the release that the cap is for: weights (default), confusion, thresholds, or counts of records",
    )
    release_epsilon = required(
        parse_epsilon,
        "ε of the release that the cap is for; the smaller it is, the more clients may exceed the cap",
        "1",
    )
    counts = optional(
        Whole(1, 10**6),
        "with --release counts: the number of counts, each record being in one of them; 1 for a single sum",
    )
    variant = optional(
        as_given, "with --release thresholds: histogram (default) or records, as it will be run"
    )
    thresholds = optional(
        Whole(2, in_module("fairshares.harness.inputs.record_schema:MAX_THRESHOLDS")),
        "with --release thresholds: how many; default: those of --domain, else 101",
    )

    @property
    def bounded(self) -> type[Request] | None:
        """The class of requests of the release that the bound is for; None for counts of no release here."""
        if self.release == COUNTS:
            return None
        bounded: type[Request] = _REQUESTS()[self.release]
        return bounded

    @property
    def _capped_variants(self) -> Sequence[str]:
        """The variants that the bound may be for, the default first; () if there is no choice."""
        if self.bounded is None:
            return ()
        return self.bounded.capped_variants

    @property
    def is_other_variant(self) -> bool:
        """Whether the bound is for another variant than the release has by default."""
        return bool(self.variant) and self.variant not in self._capped_variants[:1]

    @property
    def bounded_variant(self) -> ProtocolSpec | None:
        """The protocol of the variant that the bound is for, None if its release has no choice of them.

        Raises:
            OptionError: Options exclude each other.
        """
        from fairshares.protocols.accounting.rounding import exact_text
        from fairshares.protocols.circuits.coins import MIN_EPSILON

        of_variants = "variant" if self.variant else "thresholds"
        refuse(
            OptionError,
            (
                (self.release == COUNTS) != bool(self.counts),
                f"{named('release', COUNTS)} and {named('counts')} (how many; 1 for one sum) go together.",
            ),
            (
                (self.variant or self.thresholds) and not self._capped_variants,
                f"{named(of_variants)} goes with {named('release', ' or '.join(_releases_with_variants()))} "
                "only.",
            ),
            (
                self.release_epsilon < MIN_EPSILON,  # also keeps the number of clients within an integer
                f"{named('release_epsilon', exact_text(self.release_epsilon))} is too small; give at least "
                f"{exact_text(MIN_EPSILON)}.",
            ),
        )
        variants = self._capped_variants
        if self.bounded is None or not variants:
            return None
        variant = parse_choice("variant", self.variant or variants[0], list(variants))
        return self.bounded.specs()[variant]

    def also_needed(self) -> Sequence[Request]:
        variant = self.bounded_variant
        if self.bounded is None or variant is None:
            return ()
        return (self.bounded(epsilon=1, **self.trust.values(), variant=self.variant),)

    def with_domain_of(self, file: Path) -> CapRequest:
        from fairshares.harness.inputs.record_schema import read_domain

        if not self._capped_variants:
            return self
        return self.but(CapRequest.thresholds, len(read_domain(file).thresholds) or None)


class CapCall(ReleaseCall):
    """A call of `cap`, whose noise is not made ahead."""

    request = OptionGroup(CapRequest)
    declares = OptionGroup(
        DeclaredDomain,
        max_count={"help": "most records of one client, and the largest cap, up to 1000"},
    )
    where = OptionGroup(Where, without=("stock",))


class CapOptions(ReleaseOptions):
    """The options of `cap`, whose noise is not made ahead."""

    call = OptionGroup(CapCall)
    instead = OptionGroup(InsteadOfARun, without=("preprocess",))
