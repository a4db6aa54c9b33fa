"""What `./inv audit` looks at without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from harness.privacy.audit.local import audit_m_l, audit_m_r
from harness.privacy.audit.releases import RELEASES, audit_command, audit_protocol_4
from harness.privacy.audit.samplers import DELTAS, Audited, audit_published, audit_sampler, audit_truncated
from harness.releases.base import WITH_OWN_NOISE
from protocols.accounting.calibration import NeighboringRelation
from protocols.noise.tables import NoiseLaw

_DELTA = DELTAS["2^-40"]


def reference_set() -> Iterator[Audited]:
    """Yield what `./inv audit` without arguments looks at. Subjects of rows are unique."""
    for one in _REFERENCE:
        yield one()


def _published(epsilon: Fraction, log: str, *, rounded: bool, end: str = "") -> Callable[[], Audited]:
    subject = f"pi_lap.published.{'rounded' if rounded else 'raw'}{end}"
    return lambda: audit_published(epsilon, log, rounded=rounded, subject=subject)


def _ours(epsilon: Fraction, end: str) -> Callable[[], Audited]:
    return lambda: audit_sampler(epsilon, _DELTA, subject=f"pi_lap.default{end}")


def _protocol_4(relation: NeighboringRelation) -> Callable[[], Audited]:
    return lambda: audit_protocol_4(Fraction(1), relation)


def _release(name: str, relation: NeighboringRelation) -> Callable[[], Audited]:
    return lambda: audit_command(name, {}, relation, Fraction(1), _DELTA)


def _series(
    horizon: int, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> Callable[[], Audited]:
    name = "weights-of-clients" if relation is NeighboringRelation.ZERO_OUT_ONE else "weights"
    return lambda: audit_command(name, {}, relation, Fraction(1), _DELTA, horizon=horizon)


def _own(name: str, law: NoiseLaw) -> Callable[[], Audited]:
    three = (law, 3, 1)  # parties, one of which may be corrupt
    return lambda: audit_command(name, {}, RELEASES[name].relations[0], Fraction(1), _DELTA, own=three)


# Add what is to be audited by default here; `./inv audit` and its tests take it from here alone.
_REFERENCE: tuple[Callable[[], Audited], ...] = (
    _ours(Fraction(1), ".1"),
    _ours(Fraction(1, 2), ".1_2"),
    _ours(Fraction(1, 3), ".1_3"),
    _published(Fraction(1), "ideal", rounded=False),
    _published(Fraction(1), "ideal", rounded=True),
    _published(Fraction(1), "mp-spdz", rounded=False, end=".mp_spdz"),
    _published(Fraction(1), "mp-spdz", rounded=True, end=".mp_spdz"),
    _published(Fraction(1, 10), "ideal", rounded=False, end=".1_10"),
    _published(Fraction(1, 10), "ideal", rounded=True, end=".1_10"),
    audit_truncated,
    *(_release(name, relation) for name, release in RELEASES.items() for relation in release.relations),
    *(_series(100, relation) for relation in NeighboringRelation),
    # At this ε a gap's values are too wide for any table.
    *(_own(name, law) for name in WITH_OWN_NOISE if name != "gap" for law in NoiseLaw),
    _protocol_4(NeighboringRelation.ADD_OR_REMOVE_ONE),
    _protocol_4(NeighboringRelation.REPLACE_ONE),
    lambda: audit_m_r("1_1", Fraction(1), repaired=False),
    lambda: audit_m_r("repaired_1", Fraction(1), repaired=True),
    lambda: audit_m_l("k1", Fraction(1), 1),
    lambda: audit_m_l("k2", Fraction(1), 2),
)
