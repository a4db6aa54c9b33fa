"""A chosen contribution bound, and its use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from fairshares.harness.errors import named, named_call
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.privacy.manifest import Manifest, ReleaseManifest
from fairshares.harness.releases.cap.request import COUNTS, CapRequest
from fairshares.harness.releases.cap.statistic import ChosenCap, ExpectedCap
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.views import run_summary
from fairshares.harness.views.expected_errors import PlanSection
from fairshares.harness.views.parts import Findings, Line, Part, Table
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.accounting.rounding import exact_text
from fairshares.protocols.guarantee import Guarantee

STEPS = {
    **run_summary.STEPS,
    "share": "clients: share how many caps they exceed",
    "aggregate": "parties: put uploads together",
    "run": "parties: run π_CAP",
    "read": "read the cap",
}


def cap(found: ChosenCap, clients: int) -> Iterator[Part]:
    """Show a bound, and what comes next."""
    yield Findings(
        [
            f"The cap is {found.cap:,} of a client's records, out of caps up to {found.caps[-1]:,}.",
            f"Noise moves the numbers of clients that it was chosen by by up to {found.noise:,}.",
        ]
    )
    yield Table(
        ["cap", "clients above it, wanted", f"noise, {float(CONFIDENCE):.0%}"],
        [[f"{found.cap:,}", f"{found.above:,} at most", f"± {found.noise:,}"]],
        "rrr",
    )
    if found.index == len(found.caps) - 1:
        reason = "This is the largest: by noisy counts, too many clients exceed each smaller one."
    else:
        reason = f"This is the smallest that, by noisy counts, {found.above:,} clients or fewer exceed."
    yield f"Caps to choose from: {', '.join(map(str, found.caps))}. {reason}"
    yield f"{noise_moves(found.noise)}; another run may choose another cap."
    yield from doubt_of(found.above, found.noise, clients)
    yield "What choosing the cap spent adds to what the release spends."


def expected(section: PlanSection) -> Iterator[Part]:
    """Show the candidates of a choice, and what noise may do to it."""
    release = section.release
    choice = release.found
    assert isinstance(choice, ExpectedCap)
    caps = ", ".join(map(str, choice.caps))
    yield (
        f"The least of {caps} that, by noisy counts, {choice.above:,} clients or fewer exceed. "
        f"{noise_moves(choice.noise)}."
    )
    yield from doubt_of(choice.above, choice.noise, release.asked.clients)


def going_on_with(chosen: ChosenCap, clients: int, left: Guarantee) -> Iterator[str]:
    """Show the first run's bound, whose ε is spent even if the second run, on `left`, fails."""
    rest = f"{named('cap', chosen.cap)} {named('epsilon', left.epsilon)} {named('delta', left.delta)}"
    yield (
        f"Cap: {chosen.cap} of a client's records, by noisy counts; its part of ε is spent. If the run that "
        f"follows fails, repeat it with {rest}. That keeps to the total if its parties had not started; "
        "else this ε and δ are spent twice."
    )
    yield from doubt_of(chosen.above, chosen.noise, clients)


def chosen_cap(manifest: Manifest, directory: Path) -> Iterator[Part]:
    """Show the bound that the first run chose."""
    epsilon = run_summary.epsilon_of_part(manifest, CapRequest.task)
    yield (
        f"The cap, {manifest.privacy.cap} of a client's records, was chosen by π_CAP, a release "
        f"of its own with ε = {epsilon} of the total. Its files:"
    )
    yield Line("", str(directory))


def noise_moves(noise: int) -> str:
    """Begin a sentence on a choice's noise."""
    return (
        f"Noise moves such a comparison by up to {noise:,} clients, with at least "
        f"{float(CONFIDENCE):.0%} probability"
    )


def doubt_of(above: int, noise: int, clients: int) -> Iterator[str]:
    """Warn of a bound that is mostly noise."""
    if above >= clients:
        yield (
            f"All {clients:,} clients may exceed the cap, so 1 is best whatever they hold, and any other "
            "choice is noise alone."
        )
    elif noise >= clients:
        yield f"There are {clients:,} clients, so the cap is mostly noise; a larger ε for it helps."


class CapRun(Protocol):
    """A run that chose a cap."""

    @property
    def found(self) -> ChosenCap:
        """The cap."""

    @property
    def manifest(self) -> ReleaseManifest:
        """The manifest of the run."""


def following(call: ReleaseCall, hosts: Path | None, done: CapRun) -> list[Line]:
    """Return the commands that use a run's cap."""
    request = call.request
    assert isinstance(request, CapRequest)
    cap = str(done.found.cap)
    task = request.release
    if task == COUNTS:
        return [
            Line(
                "Next",
                "name it where clients are the privacy unit: "
                f"{named('privacy_unit', 'client')} {named('cap', cap)}",
            )
        ]
    kept = call.written("security", "population", "ledger")
    of_release = {"epsilon": exact_text(request.release_epsilon), "privacy_unit": str(PrivacyUnit.CLIENT)}
    of_sharing = {
        "records": "FILE",
        "domain": "FILE",
        "task": task,
        "security": done.manifest.security,
        "cap": cap,
    }
    bounded = request.bounded_variant
    if bounded is not None and request.is_other_variant:
        of_release["variant"] = str(request.variant)
        of_sharing["input_form"] = next(iter(bounded.input_forms))
    if call.source.records:
        read = call.written("records", "domain", "groups", "labels", "max_count")
        return [Line("Next", named_call(task, **read, **kept, **of_release, cap=cap))]
    where = {"hosts": str(hosts)} if hosts else {"shares": "SHARES"}
    return [
        Line(
            "Next, each client, as what it shared for this is a cap's only",
            named_call("share", **of_sharing),
        ),
        Line("Then, the parties", named_call(task, **where, **kept, **of_release)),
    ]


VIEW = run_summary.ReleaseView(
    STEPS,
    "the cap",
    lambda chosen, manifest: cap(chosen, manifest.inputs.clients),
    following,
    expected=expected,
)
