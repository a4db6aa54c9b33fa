"""Every argument that a program may have, with a small value: the list to which a new one is added."""

from fairshares.protocols.circuits.gaussian import JOINT_GAUSSIAN
from fairshares.protocols.spec import ProtocolSpec

# None takes noise away: epsilon is at most 20 and delta_bits at least 20 (coins.py refuses others),
# distribution, rate and edge are what each party draws its own noise by (which `Job` sees to), shape what a
# plan has of joint Gaussian noise, the rest are sizes, names of forms, and who takes part.
SMALL_ARGUMENTS: dict[str, int | str] = {
    "form": "split", "path": "shares", "parties": 1, "clients": 2, "parts": 0, "samples": 3, "records": 2,
    "slots": 3, "per_lane": 1, "groups": 2, "labels": 2, "bins": 4, "blocks": "1.2", "steps": 2, "offset": 4,
    "most": 60, "queries": 5, "above": 1, "epsilon": "1", "delta_bits": 40, "nodes": 3, "law": "laplace",
    "rate": "1", "edge": 40, "rounds": 1, "coordinates": 3, "shape": "1/8.6.2",
}  # fmt: skip


def small_arguments(spec: ProtocolSpec, **given: int | str) -> list[str]:
    """Return a program's arguments in order, small but for those that are given."""
    missing = [name for name in spec.arguments if name not in SMALL_ARGUMENTS]
    assert not missing, f"say in {__file__} what these arguments are: {', '.join(missing)}"
    law: dict[str, int | str] = {"law": JOINT_GAUSSIAN} if "shape" in spec.arguments else {}
    values = {**SMALL_ARGUMENTS, **law, **given}
    return [str(values[name]) for name in spec.arguments]
