"""The users' commands."""

from invoke import Collection

from fairshares.harness.cli import options
from fairshares.harness.cli.command_line import ANALYST, CLIENT, PARTY, Command
from fairshares.harness.releases.registry import RELEASES

_RUNS = "fairshares.harness.cli.commands"

_RELEASE_COMMANDS = tuple(
    Command(task, options_of_task, f"{_RUNS}.releases:release", ANALYST)
    for task, options_of_task in RELEASES.items()
)

COMMANDS = (
    Command("quickstart", options.QuickstartOptions, f"{_RUNS}.quickstart:quickstart", ANALYST),
    Command("security", options.SecurityOptions, f"{_RUNS}.installation:security", ANALYST),
    Command("task", options.TaskOptions, f"{_RUNS}.tasks:task", ANALYST),
    Command("invite", options.InviteOptions, f"{_RUNS}.pages:invite", ANALYST),
    Command("keys", options.KeysOptions, f"{_RUNS}.tasks:keys", PARTY),
    Command("share", options.ShareOptions, f"{_RUNS}.tasks:share", CLIENT),
    Command("uploads", options.UploadsOptions, f"{_RUNS}.tasks:uploads", PARTY),
    Command("aggregate", options.AggregateOptions, f"{_RUNS}.tasks:aggregate", PARTY),
    Command("send", options.SendOptions, f"{_RUNS}.send:send", CLIENT),
    *_RELEASE_COMMANDS,
    Command("train", options.TrainOptions, f"{_RUNS}.train:train", ANALYST),
    Command("verify", options.VerifyOptions, f"{_RUNS}.verify:verify", ANALYST),
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
