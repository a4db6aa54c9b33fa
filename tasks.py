"""The commands: `./inv --list` names them, `./inv --help COMMAND` explains one.

Those that users have, the tests, the documentation, and the benchmarks; what a command runs is imported
when it runs.
"""

from __future__ import annotations

from invoke import Collection

from benchmarks.commands import options as of_benchmarks
from harness.cli.command_line import Command
from harness.cli.options import DocsOptions, TestOptions
from harness.cli.user_commands import COMMANDS, HOSTS

BENCHMARKS = "benchmarks.commands"

namespace = Collection(
    *COMMANDS,
    Command("test", TestOptions, "harness.cli.commands.installation:test"),
    Command("docs", DocsOptions, "harness.cli.commands.installation:docs"),
    hosts=HOSTS,
    bench=Collection(
        "bench",
        Command("utility", of_benchmarks.UtilityOptions, f"{BENCHMARKS}.studies:utility"),
        Command("trust", of_benchmarks.TrustOptions, f"{BENCHMARKS}.studies:trust"),
        Command("plans", of_benchmarks.PlansOptions, f"{BENCHMARKS}.studies:plans"),
        Command("tampering", of_benchmarks.TamperingOptions, f"{BENCHMARKS}.tampering:tampering"),
        Command("timing", of_benchmarks.TimingOptions, f"{BENCHMARKS}.tampering:timing"),
        *(
            Command(suite, options_class, f"{BENCHMARKS}.measured:measure")
            for suite, options_class in of_benchmarks.SUITES.items()
        ),
        Command("run", of_benchmarks.RunOptions, f"{BENCHMARKS}.measured:measure"),
        Command("program", of_benchmarks.ProgramOptions, f"{BENCHMARKS}.program:program"),
        Command("validate", of_benchmarks.ValidateOptions, f"{BENCHMARKS}.judged:validate"),
        Command("report", of_benchmarks.ReportOptions, f"{BENCHMARKS}.judged:report"),
        Command("export", of_benchmarks.ExportOptions, f"{BENCHMARKS}.judged:export"),
        Command("compare", of_benchmarks.CompareOptions, f"{BENCHMARKS}.judged:compare"),
    ),
    reproduce=Collection(
        "reproduce",
        Command("capping", of_benchmarks.CappingOptions, f"{BENCHMARKS}.studies:capping"),
        Command("gaps", of_benchmarks.GapsOptions, f"{BENCHMARKS}.studies:gaps"),
        Command("groupwise", of_benchmarks.GroupwiseOptions, f"{BENCHMARKS}.studies:groupwise"),
        Command("training", of_benchmarks.TrainingOptions, f"{BENCHMARKS}.studies:training"),
    ),
)
