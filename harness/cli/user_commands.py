"""The users' commands."""

from collections.abc import Mapping
from typing import ClassVar

from invoke import Collection

from harness.cli import options
from harness.cli.command_line import ANALYST, CLIENT, PARTY, Command
from harness.cli.options import PLOT, PREPROCESS
from harness.errors import OptionError, named
from harness.request.fields import Options, Part, optional
from harness.request.plans import parse_plan
from harness.request.readers import parse_names, parse_path
from harness.request.releases import (
    CapCall,
    ConfusionCall,
    CountCall,
    GapCall,
    Invitations,
    ReleaseCall,
    ThresholdsCall,
    WeightsCall,
)


class InsteadOfARun(Options):
    """A plan, or noise for later runs, in place of a run."""

    plan = optional(
        parse_plan,
        "say what it would cost and how far off it would be, and run nothing: how many clients there would "
        "be, as 100, and how many records in all, as 100,300; or file, for those of --records; then "
        "network=wan (or lan, or 40ms,100Mbit), error=0.01, units=DIR; groups and labels are numbers then, "
        "or names, with shares of the records if these differ (a:0.7,b:0.3)",
    )
    preprocess = PREPROCESS


class Earlier(Options):
    """What earlier runs revealed, with which a command goes on in place of a run."""

    add = optional(
        parse_names,
        "instead of --records: the directories of runs of one --chain, as runs/a,runs/b; adds up what "
        "they counted, for no ε",
    )
    fingerprints = optional(
        parse_path,
        "with --add: a file with the SHA-256 of each host's certificate, a line each, from the hosts' "
        "owners, party 0 first; the certificates of keys that they made later follow",
    )
    curves = optional(
        parse_path,
        "instead of --records: the directory of an earlier run; chooses on its curves again, for no ε",
    )


class ReleaseOptions(Options):
    """A command's options: those of its call, and others. `again` are those that go with earlier results."""

    again: ClassVar[tuple[str, ...]] = ()

    call = Part(ReleaseCall)
    invitations = Part(Invitations, without=("invite", "clients"))
    instead = Part(InsteadOfARun)
    earlier = Part(Earlier, without=("add", "fingerprints", "curves"))
    hosts = optional(
        parse_path,
        "a file that describes hosts, of which each runs one party on the shares that it has "
        "(docs/how-to/hosts.md)",
    )
    plot = PLOT

    def __init_subclass__(cls, **changes: Mapping[str, object]) -> None:
        super().__init_subclass__(**changes)
        cls.also = cls.call.kind.also
        cls.prints = f"{cls.call.kind.request.kind.task}.json"

    def __init__(self, **given: object) -> None:
        """Read the options, or refuse a new run's beside earlier results."""
        if given.get("fingerprints") and not given.get("add"):
            raise OptionError(f"{named('fingerprints')} goes with {named('add')}, whose runs hosts signed.")
        earlier = [name for name in type(self).earlier.options if given.get(name)]
        of_both = (*earlier, *self.again, "out", "plot")
        of_new_runs = [
            name
            for name, text in given.items()
            if name in self.declared
            and name not in of_both
            and text not in ("", False, self.declared[name].default)
        ]
        if earlier and of_new_runs:
            raise OptionError(
                f"{named(of_new_runs[0])} is for a new run, and {named(earlier[0])} for what earlier runs "
                "revealed: leave one of them out."
            )
        super().__init__(**given)

    @classmethod
    def summary(cls) -> str:
        return cls.call.kind.request.kind.summary()


class WeightsOptions(ReleaseOptions):
    """The options of `weights`."""

    call = Part(WeightsCall, epsilon={"unless": "add"})
    invitations = Part(Invitations)
    earlier = Part(Earlier, without=("curves",))


class ConfusionOptions(ReleaseOptions):
    """The options of `confusion`."""

    call = Part(ConfusionCall)


class ThresholdsOptions(ReleaseOptions):
    """The options of `thresholds`."""

    again = ("constraint", "objective", "tolerance", "deterministic", "positive_label")
    call = Part(ThresholdsCall, epsilon={"unless": "curves"})
    earlier = Part(Earlier, without=("add", "fingerprints"))


class GapOptions(ReleaseOptions):
    """The options of `gap`."""

    call = Part(GapCall)


class CountOptions(ReleaseOptions):
    """The options of `count`."""

    call = Part(CountCall)


class CapOptions(ReleaseOptions):
    """The options of `cap`, whose noise is not made ahead."""

    call = Part(CapCall)
    instead = Part(InsteadOfARun, without=("preprocess",))


RELEASES: Mapping[str, type[ReleaseOptions]] = {
    options.call.kind.request.kind.task: options
    for options in (
        WeightsOptions,
        ConfusionOptions,
        ThresholdsOptions,
        GapOptions,
        CountOptions,
        CapOptions,
    )
}


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
