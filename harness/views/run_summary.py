"""Common parts of all runs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import UNSET, UnsetType

from fairshares.harness.computation import Computation
from fairshares.harness.errors import FairSharesError, named, named_command
from fairshares.harness.privacy.manifest import Columns, Manifest, ReleaseManifest, given, read_statement
from fairshares.harness.privacy.statement import SHIFTED, bounds_shown
from fairshares.harness.releases.base import Answer
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.security_models import title_of
from fairshares.harness.uploads.lists import described
from fairshares.harness.uploads.task import ANYONE
from fairshares.harness.views.expected_errors import PlanSection, noise_errors
from fairshares.harness.views.parts import (
    PAGE,
    Bad,
    Findings,
    Good,
    Heading,
    Line,
    Part,
    Picture,
    Sentences,
    Table,
)
from fairshares.harness.views.rendering.plots import deltas
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonObject

STEPS = {
    "records": "read records",
    "plan": "design the noise",
    "share": "clients: split counts into shares",
    "aggregate": "parties: add up their own columns",
    "compile": "compile the program",
}
HOST_STEPS = {
    "connect": "connect to the hosts",
    "look": "look at each host",
    "ports": "hosts: reach each other",
}
CAP_STEPS = {  # the steps of a run that chooses a bound before another
    "cap plan": "design the noise of the choice",
    "cap share": "clients: split their numbers of records into shares",
    "cap aggregate": "parties: take the shares of sizes",
    "cap compile": "compile the choice of the cap",
    "cap run": "parties: run π_CAP",
    "cap read": "read the cap",
}


@dataclass(frozen=True)
class ReleaseView:
    """A release's presentation.

    Attributes:
        steps: The names of a run's steps, by key.
        what: The name of the result, in the plural.
        show: Shows a result, given its manifest.
        hints: A function that returns remarks on a run, given its call, and the file of hosts if it ran on
            hosts.
        records: A function that returns sentences on how a call's own fields had the records read, given the
            result.
        expected: Shows what a plan expects of the release; by default errors that noise makes.
        problem: A function that returns why a result falls short although its ε is spent, or None.
        chain: A function that returns sentences on how a run protects together with others of its chain,
            given its manifest.
    """

    steps: Mapping[str, str]
    what: str
    show: Callable[[Any, ReleaseManifest], Iterator[Part]]
    hints: Callable[[ReleaseCall, Path | None, Any], Sequence[Part]] = lambda *_: ()
    records: Callable[[ReleaseCall, Answer], Sequence[str]] = lambda *_: ()
    expected: Callable[[PlanSection], Iterator[Part]] = noise_errors
    problem: Callable[[Answer], FairSharesError | None] = lambda _: None
    chain: Callable[[ReleaseManifest], Sequence[str]] = lambda _: ()


def view_of(task: str) -> ReleaseView:
    """Load and return a release's `VIEW`."""
    view: ReleaseView = import_module(f"fairshares.harness.releases.{task}.view").VIEW
    return view


def preprocessed(stock: str, seconds: Sequence[float], sent_bytes: Sequence[int]) -> Iterator[Part]:
    """Show the place and costs of noise made ahead: the time of each piece, and what all parties sent."""
    yield f"The noise of {len(seconds)} runs is in {stock}."
    yield (
        f"Each took {median(seconds):,.3g} s, and all parties sent {median(sent_bytes) / 1e3:,.0f} kB "
        "(medians)."
    )
    yield f"Each run with {named('offline')} takes one piece; guard them as you guard shares."


def security_models(rows: Sequence[JsonObject]) -> Iterator[Part]:
    """Show the models that can run here, and why others cannot."""
    yield Table(
        ["security model", "engine", "parties", "adversary", "available"],
        [
            [
                str(row["security"]),
                str(row["engine_version"] or row["engine"]),
                str(row["parties"]),
                str(row["adversary"]),
                Good("yes") if row["available"] else Bad("no"),
            ]
            for row in rows
        ],
        "lllll",
    )
    models_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            models_by_reason.setdefault(str(row["reason"]), []).append(str(row["security"]))
    for reason, models in models_by_reason.items():
        yield f"{', '.join(models)}: {reason}"
    yield (
        f"With {named('noise', 'distributed')}, in every model, {SHIFTED}. Errors are then up to 1.41 "
        "times as large with two parties, 1.22 with three, 1.15 with four; of n parties of which t may "
        "collude, √(n / (n − t)) times."
    )


def results(directory: Path, page: bool = False) -> Line:
    """Show the results' path, or their page's."""
    return Line("Results", str(directory / PAGE if page else directory))


def subtitle(manifest: ReleaseManifest) -> str:
    """Say whose records a report is about, by which model, and when."""
    time = manifest.environment.time.partition("+")[0].replace("T", " ")
    return (
        f"{manifest.inputs.clients:,} clients; model {title_of(manifest.security, given(manifest.parties))}, "
        f"{manifest.engine_version}; {time} UTC"
    )


def epsilon_of_part(manifest: Manifest, task: str) -> str:
    """Return the ε that a release within a run spent, as it is shown."""
    epsilon, _ = bounds_shown(manifest.releases[task].privacy.exact)
    return epsilon


def one_machine(saw_records: bool) -> str:
    """Say what a run on one machine does not protect."""
    seen = "and it saw all records" if saw_records else "and it held all shares"
    return f"All parties ran on this machine, {seen}: the run protects nothing against the machine's owner."


def on_hosts(invited: bool) -> str:
    """Say what a run on hosts does not protect."""
    seen = "This machine saw no share, no key and no random bit of theirs."
    if invited:
        seen += (
            " It made the clients' keys and could have sent in a client's place; that it could not read "
            "what they sent is certain only if clients and hosts' owners compared certificates without it."
        )
    return (
        f"Each party ran on its own host, which signed the result: {named_command('verify')} checks that. "
        f"{seen} Whoever can act as the hosts' users on more of them than the model tolerates, by ssh for "
        "example, can see all records."
    )


def privacy(manifest: ReleaseManifest) -> Iterator[Part]:
    """Show a run's privacy statement."""
    stated = read_statement(manifest)
    yield Findings(stated.in_short()[1:2])
    yield Heading("Privacy of what was revealed")
    yield guaranteed(manifest)
    yield Sentences(stated.in_full())


def guaranteed(manifest: ReleaseManifest) -> Picture:
    """Picture the guarantees of a run and its parts."""
    parts = manifest.releases if isinstance(manifest, Manifest) else {}
    all_of_it = "all together" if parts else manifest.task
    releases = {**parts, all_of_it: manifest}
    return at_every_epsilon({name: release.privacy.exact for name, release in releases.items()})


def at_every_epsilon(guarantees: Mapping[str, Guarantee]) -> Picture:
    """Picture what guarantees imply at every ε."""
    curves = {}
    for name, guarantee in guarantees.items():
        label = f"{name}, ε = {digits_up(guarantee.epsilon, 4)}"
        curves[label] = (guarantee.epsilon, ImpliedCurve(guarantee).delta)
    return deltas(
        "privacy",
        curves,
        "The guarantee at every ε: what has probability p on one data set has e^ε · p + δ at most on its "
        "neighbor. The dot is the guarantee as it is stated.",
    )


@dataclass(frozen=True)
class ImpliedCurve:
    """The δ at every ε that a stated guarantee implies."""

    stated: Guarantee

    def delta(self, epsilon: Fraction) -> float:
        """Return the least δ that the stated (ε, δ) implies at another ε, x.

        Computes: δ + (1 − δ)(e^ε − e^x) / (1 + e^ε), and δ for x above ε.
        Source: Kairouz, Oh and Viswanath 2015.  [test: tests/harness/views/test_plots.py]
        """
        exp_stated = math.exp(self.stated.epsilon)
        delta = float(self.stated.delta)
        return delta + (1 - delta) * max(exp_stated - math.exp(epsilon), 0.0) / (1 + exp_stated)


def in_short(manifest: ReleaseManifest, *, here: bool = False) -> Sentences:
    """Show a run's privacy in three lines."""
    return Sentences(read_statement(manifest).in_short(here=here))


def statement(manifest: Manifest, result: str) -> Iterator[Part]:
    """Show a run's privacy statement and costs."""
    yield from privacy(manifest)
    yield from left_out(manifest)
    yield (
        f"Cost: {seconds_and_traffic(manifest)}; {manifest.wall_s or 0:.2f} s from sharing to {result} "
        f"({manifest.engine_version})."
    )


def left_out(manifest: ReleaseManifest) -> Iterator[str]:
    """Say which uploads were left out, whether records are clients, and whether anybody could upload."""
    columns = manifest.columns if isinstance(manifest, Manifest) else UNSET
    if isinstance(columns, Columns) and isinstance(columns.client_id, UnsetType):
        yield (
            "Without a column client_id each record is a client of its own: the number of records is public, "
            "and whoever has several is protected in each, not as a person."
        )
    excluded = given(manifest.inputs.excluded_because)
    if excluded:
        yield f"Uploads left out, by all parties alike: {described(excluded)}."
    if given(manifest.inputs.admission) == ANYONE:
        yield "Anybody who reached the parties' servers could upload any number of invented records."


def seconds_and_traffic(done: Computation, each: str = "") -> str:
    """Say how long the computation took, and how much was sent; `each` is what a part of it took."""
    rounds = "" if done.rounds is None else f", {done.rounds} rounds"
    return f"{done.mpc_s or 0:.3f} s in the computation, {each}{sent(done)} sent by all parties{rounds}"


def sent(done: Computation) -> str:
    """Return all parties' traffic."""
    return f"{sum(done.sent_bytes) / 1e3:,.0f} kB"
