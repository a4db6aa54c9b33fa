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
    Command("reproduce", of_benchmarks.ReproduceOptions, f"{BENCHMARKS}.studies:reproduce"),
    hosts=HOSTS,
    bench=Collection(
        "bench",
        Command("tampering", of_benchmarks.TamperingOptions, f"{BENCHMARKS}.tampering:tampering"),
        Command("timing", of_benchmarks.TimingOptions, f"{BENCHMARKS}.tampering:timing"),
        Command("run", of_benchmarks.RunOptions, f"{BENCHMARKS}.measured:run"),
        Command("validate", of_benchmarks.ValidateOptions, f"{BENCHMARKS}.judged:validate"),
        Command("export", of_benchmarks.ExportOptions, f"{BENCHMARKS}.judged:export"),
        Command("compare", of_benchmarks.CompareOptions, f"{BENCHMARKS}.judged:compare"),
    ),
)
