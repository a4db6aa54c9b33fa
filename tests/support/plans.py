"""Plans as commands make them, from texts of a request and of whom it would be."""

from typing import Any

from fairshares.harness.cli.report import tell
from fairshares.harness.cli.terminal import Output, ending_well
from fairshares.harness.forecast.requested import RequestPlan, class_of_sizes, planned
from fairshares.harness.releases.registry import RELEASES, REQUESTS
from fairshares.harness.views import plan as view


def plan_of(task: str = "weights", **texts: Any) -> RequestPlan:
    """Return a plan. Args: texts: by name, of the task's request and of `Expected`."""
    kind = REQUESTS[task]
    sizes = {name for options in RELEASES.values() for name in options.expected.declared}
    unknown = {name for name, text in texts.items() if text} - kind.declared.keys() - sizes
    assert unknown <= {"privacy_unit"}, f"{task} has no {unknown}"
    request = kind(**{name: text for name, text in texts.items() if name in kind.declared})
    given = {name: text for name, text in texts.items() if name in sizes and text}
    return planned(request, class_of_sizes(task, given)(**given))


def show_plan(**texts: Any) -> None:
    """Print a plan, as a command does. Args: texts: as of `plan_of`; json: whether as JSON."""
    json = bool(texts.pop("json", False))
    plan = plan_of(**texts)
    with ending_well(Output(json=json)):
        tell("plan", "Plan", list(view.plan(plan)), lambda: view.to_json(plan), plot=False)
