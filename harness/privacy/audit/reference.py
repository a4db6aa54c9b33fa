"""What `./inv audit` looks at without arguments."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from harness.privacy.audit.local import audit_m_l, audit_m_r
from harness.privacy.audit.releases import RELEASES, audit_command, audit_protocol_4
from harness.privacy.audit.samplers import DELTAS, Audited, audit_published, audit_sampler, audit_truncated
from harness.request.base import WITH_OWN_NOISE
from protocols.accounting.calibration import NeighboringRelation
from protocols.noise.tables import NoiseLaw

_ONE, _DELTA = Fraction(1), DELTAS["2^-40"]
_ADD, _REPLACE, _ZERO_OUT = NeighboringRelation


def reference_set() -> Iterator[Audited]:
    """Yield what `./inv audit` without arguments looks at. Subjects of rows are unique."""
    for one in _REFERENCE:
        yield one()


# Add what is to be audited by default here; `./inv audit` and its tests take it from here alone.
_REFERENCE: tuple[Callable[[], Audited], ...] = (
    partial(audit_sampler, _ONE, _DELTA, subject="pi_lap.default.1"),
    partial(audit_sampler, Fraction(1, 2), _DELTA, subject="pi_lap.default.1_2"),
    partial(audit_sampler, Fraction(1, 3), _DELTA, subject="pi_lap.default.1_3"),
    *(
        partial(audit_published, epsilon, log, rounded=rounded, subject=f"pi_lap.published.{end}")
        for epsilon, log, rounded, end in (
            (_ONE, "ideal", False, "raw"),
            (_ONE, "ideal", True, "rounded"),
            (_ONE, "mp-spdz", False, "raw.mp_spdz"),
            (_ONE, "mp-spdz", True, "rounded.mp_spdz"),
            (Fraction(1, 10), "ideal", False, "raw.1_10"),
            (Fraction(1, 10), "ideal", True, "rounded.1_10"),
        )
    ),
    audit_truncated,
    *(
        partial(audit_command, name, {}, relation, _ONE, _DELTA)
        for name, release in RELEASES.items()
        for relation in release.relations
    ),
    partial(audit_command, "weights", {}, _ADD, _ONE, _DELTA, horizon=100),
    partial(audit_command, "weights", {}, _REPLACE, _ONE, _DELTA, horizon=100),
    partial(audit_command, "weights-of-clients", {}, _ZERO_OUT, _ONE, _DELTA, horizon=100),
    *(  # three parties, one of which may be corrupt
        partial(audit_command, name, {}, RELEASES[name].relations[0], _ONE, _DELTA, own=(law, 3, 1))
        for name in WITH_OWN_NOISE
        if name != "gap"  # at this ε its values are too wide for any table
        for law in NoiseLaw
    ),
    partial(audit_protocol_4, _ONE, _ADD),
    partial(audit_protocol_4, _ONE, _REPLACE),
    partial(audit_m_r, "1_1", _ONE, repaired=False),
    partial(audit_m_r, "repaired_1", _ONE, repaired=True),
    partial(audit_m_l, "k1", _ONE, 1),
    partial(audit_m_l, "k2", _ONE, 2),
)
