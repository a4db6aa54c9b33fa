"""The commands that users have, from a checkout as from an installed package.

Each is made from a class that says its options, and runs a function that is imported then.
"""

from invoke import Collection

from harness.cli import options, release_options
from harness.cli.command_line import Command

_RUNS = "harness.cli.commands"

COMMANDS = (
    Command("quickstart", options.QuickstartOptions, f"{_RUNS}.quickstart:quickstart"),
    Command("schemes", options.SchemesOptions, f"{_RUNS}.installation:schemes"),
    Command("share", options.ShareOptions, f"{_RUNS}.shares:share"),
    Command("uploads", options.UploadsOptions, f"{_RUNS}.shares:uploads"),
    Command("aggregate", options.AggregateOptions, f"{_RUNS}.shares:aggregate"),
    Command("send", options.SendOptions, f"{_RUNS}.send:send"),
    *(Command(task, of_task, of_task.place) for task, of_task in release_options.RELEASES.items()),
    Command("train", options.TrainOptions, f"{_RUNS}.train:train"),
    Command("verify", options.VerifyOptions, f"{_RUNS}.hosts:verify"),
    Command("ledger", options.LedgerOptions, f"{_RUNS}.ledger:ledger"),
    Command("noise", options.NoiseOptions, f"{_RUNS}.audit:noise"),
    Command("audit", options.AuditOptions, f"{_RUNS}.audit:audit"),
)
HOSTS = Collection(
    "hosts",
    Command("check", options.HostsCheckOptions, f"{_RUNS}.hosts:check"),
    Command("setup", options.HostsSetupOptions, f"{_RUNS}.hosts:setup"),
    Command("policy", options.HostsPolicyOptions, f"{_RUNS}.hosts:policy"),
    Command("collect", options.HostsCollectOptions, f"{_RUNS}.hosts:collect"),
    Command("clean", options.HostsCleanOptions, f"{_RUNS}.hosts:clean"),
)
