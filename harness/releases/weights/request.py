"""What a run of `weights` is asked for."""

from __future__ import annotations

from typing import ClassVar

from fairshares.harness.request.base import AT_REST, Inputs, Protect, Randomness, Request
from fairshares.harness.request.commands import Earlier, ReleaseOptions
from fairshares.harness.request.fields import Part, usual
from fairshares.harness.request.readers import one_of, parse_input_path
from fairshares.harness.request.releases import Invitations, ReleaseCall, form_help
from fairshares.harness.reweighing.names import DEFAULT, weighting_names

_, *_OTHERS = weighting_names()


class WeightsRequest(Request):
    """Compute DP sample weights per group and label (π_RW)."""

    task = "weights"
    protocols: ClassVar = {"counts": "pi_rw"}
    slots = "pi_rw_slots"
    online = True

    protect = Part(Protect)
    randomness = Part(Randomness)
    inputs = Part(
        Inputs,
        input_form={"help": form_help("counts per group and label", "group indicator times label counts")},
        input_path={
            "parse": parse_input_path,
            "help": f"{AT_REST}; or clients: each sends during the run. By the last two active models take "
            "product, too",
        },
    )
    reweighing = usual(
        DEFAULT,
        one_of(weighting_names),
        f"{DEFAULT} (default), {', '.join(_OTHERS[:-1])} or {_OTHERS[-1]}; all from the same noisy counts",
    )


class WeightsCall(ReleaseCall):
    """A call of `weights`."""

    request = Part(WeightsRequest)


class WeightsOptions(ReleaseOptions):
    """The options of `weights`."""

    call = Part(WeightsCall, epsilon={"unless": "add"})
    invitations = Part(Invitations)
    earlier = Part(Earlier, without=("curves",))
