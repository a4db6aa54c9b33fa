"""The commands: `./inv --list` names them, `./inv --help COMMAND` explains one.

Each is made from a class that says its options, and runs a function that is imported then.
"""

from __future__ import annotations

from invoke import Collection

from benchmarks.commands import options as of_benchmarks
from harness.cli import options, release_options
from harness.cli.command_line import Command

RUNS = "harness.cli.commands"
BENCHMARKS = "benchmarks.commands"

namespace = Collection(
    Command("quickstart", options.QuickstartOptions, f"{RUNS}.quickstart:quickstart"),
    Command("schemes", options.SchemesOptions, f"{RUNS}.installation:schemes"),
    Command("share", options.ShareOptions, f"{RUNS}.shares:share"),
    Command("uploads", options.UploadsOptions, f"{RUNS}.shares:uploads"),
    Command("aggregate", options.AggregateOptions, f"{RUNS}.shares:aggregate"),
    Command("send", options.SendOptions, f"{RUNS}.send:send"),
    *(Command(task, of_task, of_task.place) for task, of_task in release_options.RELEASES.items()),
    Command("plan", release_options.PlanOptions, f"{RUNS}.plan:plan"),
    Command("ledger", options.LedgerOptions, f"{RUNS}.ledger:ledger"),
    Command("noise", options.NoiseOptions, f"{RUNS}.audit:noise"),
    Command("audit", options.AuditOptions, f"{RUNS}.audit:audit"),
    Command("test", options.TestOptions, f"{RUNS}.installation:test"),
    hosts=Collection(
        "hosts",
        Command("check", options.HostsCheckOptions, f"{RUNS}.hosts:check"),
        Command("setup", options.HostsSetupOptions, f"{RUNS}.hosts:setup"),
        Command("run", release_options.HostsRunOptions, f"{RUNS}.hosts:run"),
        Command("collect", options.HostsCollectOptions, f"{RUNS}.hosts:collect"),
        Command("clean", options.HostsCleanOptions, f"{RUNS}.hosts:clean"),
    ),
    bench=Collection(
        "bench",
        Command("utility", of_benchmarks.UtilityOptions, f"{BENCHMARKS}.studies:utility"),
        Command("trust", of_benchmarks.TrustOptions, f"{BENCHMARKS}.studies:trust"),
        *(
            Command(suite, options_class, f"{BENCHMARKS}.measured:measure")
            for suite, options_class in of_benchmarks.SUITES.items()
        ),
        Command("validate", of_benchmarks.ValidateOptions, f"{BENCHMARKS}.judged:validate"),
        Command("report", of_benchmarks.ReportOptions, f"{BENCHMARKS}.judged:report"),
    ),
    reproduce=Collection(
        "reproduce",
        Command("capping", of_benchmarks.CappingOptions, f"{BENCHMARKS}.studies:capping"),
        Command("gaps", of_benchmarks.GapsOptions, f"{BENCHMARKS}.studies:gaps"),
        Command("groupwise", of_benchmarks.GroupwiseOptions, f"{BENCHMARKS}.studies:groupwise"),
    ),
)
