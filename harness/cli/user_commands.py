"""The users' commands."""

from typing import Any, ClassVar

from invoke import Collection

from harness.cli import options
from harness.cli.command_line import ANALYST, CLIENT, PARTY, Command
from harness.cli.options import PLOT, PREPROCESS
from harness.errors import OptionError, named
from harness.request.fields import Options, optional
from harness.request.plans import parse_plan
from harness.request.readers import in_module, parse_names, parse_path, whole
from harness.request.releases import CALLS


class ReleaseOptions(Options):
    """A command's options besides its call's; `earlier` are those for earlier results."""

    earlier: ClassVar[tuple[str, ...]] = ()
    preprocess: Any = None

    hosts = optional(
        parse_path,
        "a file that describes hosts, of which each runs one party on the shares that it has "
        "(docs/how-to/hosts.md)",
    )
    plan = optional(
        parse_plan,
        "say what it would cost and how far off it would be, and run nothing: how many clients there would "
        "be, as 100, and how many records in all, as 100,300; or file, for those of --records; then "
        "network=wan (or lan, or 40ms,100Mbit), error=0.01, units=DIR; groups and labels are numbers then, "
        "or names, with shares of the records if these differ (a:0.7,b:0.3)",
    )
    plot = PLOT

    def __init__(self, **given: Any) -> None:
        """Read the options, or refuse a new run's beside earlier results."""
        again, of_both = self.earlier[:1], (*self.earlier, "out", "plot")
        for name, text in given.items() if any(map(given.get, again)) else ():
            if text not in ("", False, self.declared[name].default) and name not in of_both:
                raise OptionError(
                    f"{named(name)} is for a new run, and {named(again[0])} for what earlier runs revealed: "
                    "leave one of them out."
                )
        super().__init__(**given)


_OF_TASK: dict[str, dict[str, Any]] = {
    "weights": {
        "earlier": ("add",),
        "add": optional(
            parse_names,
            "instead of --records: the directories of runs of one --chain, as runs/a,runs/b; adds up what "
            "they counted, for no ε",
        ),
    },
    "thresholds": {
        "earlier": ("curves", "constraint", "objective", "tolerance", "deterministic", "positive_label"),
        "curves": optional(
            parse_path,
            "instead of --records: the directory of an earlier run; chooses on its curves again, for no ε",
        ),
    },
}


def _options_of(task: str) -> Any:
    call, own = CALLS[task], _OF_TASK.get(task, {})
    members: dict[str, Any] = {"__doc__": call.__doc__, "prints": f"{task}.json"}
    if "offline" in call.declared:
        members["preprocess"] = PREPROCESS
    if call.online:
        members |= {
            "invite": optional(
                parse_path,
                "instead of --records: a new directory for the clients' invitations, by which each sends "
                "during the run (needs MP-SPDZ)",
            ),
            "clients": optional(
                whole(1, in_module("harness.clients.session:MAX_CONNECTIONS")), "how many clients are invited"
            ),
        }
    if again := own.get("earlier"):
        members["epsilon"] = call.epsilon.but(unless=again[0])
    return type(f"{task.capitalize()}Options", (ReleaseOptions, call), {**members, **own})


RELEASES: dict[str, Any] = {task: _options_of(task) for task in CALLS}


_RUNS = "harness.cli.commands"

COMMANDS = (
    Command("quickstart", options.QuickstartOptions, f"{_RUNS}.quickstart:quickstart", ANALYST),
    Command("security", options.SecurityOptions, f"{_RUNS}.installation:security", ANALYST),
    Command("task", options.TaskOptions, f"{_RUNS}.tasks:task", ANALYST),
    Command("keys", options.KeysOptions, f"{_RUNS}.tasks:keys", PARTY),
    Command("share", options.ShareOptions, f"{_RUNS}.tasks:share", CLIENT),
    Command("uploads", options.UploadsOptions, f"{_RUNS}.tasks:uploads", PARTY),
    Command("aggregate", options.AggregateOptions, f"{_RUNS}.tasks:aggregate", PARTY),
    Command("send", options.SendOptions, f"{_RUNS}.send:send", CLIENT),
    *(Command(task, of_task, f"{_RUNS}.releases:release", ANALYST) for task, of_task in RELEASES.items()),
    Command("train", options.TrainOptions, f"{_RUNS}.train:train", ANALYST),
    Command("verify", options.VerifyOptions, f"{_RUNS}.hosts:verify", ANALYST),
    Command("ledger", options.LedgerOptions, f"{_RUNS}.ledger:ledger", ANALYST),
    Command("noise", options.NoiseOptions, f"{_RUNS}.audit:noise", ANALYST),
    Command("audit", options.AuditOptions, f"{_RUNS}.audit:audit", ANALYST),
)
HOSTS = Collection(
    "hosts",
    Command("check", options.HostsCheckOptions, f"{_RUNS}.hosts:check", PARTY),
    Command("setup", options.HostsSetupOptions, f"{_RUNS}.hosts:setup", PARTY),
    Command("policy", options.HostsPolicyOptions, f"{_RUNS}.hosts:policy", PARTY),
    Command("log", options.HostsLogOptions, f"{_RUNS}.hosts:log", PARTY),
    Command("restored", options.HostsRestoredOptions, f"{_RUNS}.hosts:restored", PARTY),
    Command("collect", options.HostsCollectOptions, f"{_RUNS}.hosts:collect", PARTY),
    Command("clean", options.HostsCleanOptions, f"{_RUNS}.hosts:clean", PARTY),
)
