"""The commands, which `./inv --list` names. Their code is imported when they run."""

from invoke import Collection

from benchmarks.commands import options as of_benchmarks
from fairshares.harness.cli.command_line import ANALYST, BENCHMARKS, PROJECT, Command
from fairshares.harness.cli.options import AuditOptions, CheckOptions, DocsOptions, TestOptions
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS

_RUNS = "benchmarks.commands"

# In the place of the users' command: it has published mechanisms, too.
_AUDIT = Command("audit", AuditOptions, f"{_RUNS}.audit:audit", ANALYST)

namespace = Collection(
    *(_AUDIT if command.name == _AUDIT.name else command for command in COMMANDS),
    Command("check", CheckOptions, "fairshares.harness.cli.commands.installation:check", PROJECT),
    Command("test", TestOptions, "fairshares.harness.cli.commands.installation:test", PROJECT),
    Command("docs", DocsOptions, "fairshares.harness.cli.commands.installation:docs", PROJECT),
    Command("reproduce", of_benchmarks.ReproduceOptions, f"{_RUNS}.studies:reproduce", BENCHMARKS),
    hosts=HOSTS,
    bench=Collection(
        "bench",
        Command("tampering", of_benchmarks.TamperingOptions, f"{_RUNS}.tampering:tampering", BENCHMARKS),
        Command("timing", of_benchmarks.TimingOptions, f"{_RUNS}.tampering:timing", BENCHMARKS),
        Command("run", of_benchmarks.RunOptions, f"{_RUNS}.measured:run", BENCHMARKS),
        Command("validate", of_benchmarks.ValidateOptions, f"{_RUNS}.measured:validate", BENCHMARKS),
        Command("export", of_benchmarks.ExportOptions, f"{_RUNS}.measured:export", BENCHMARKS),
    ),
)
