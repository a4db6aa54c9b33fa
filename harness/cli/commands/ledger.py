"""`ledger`."""

from functools import partial

from fairshares.harness.cli.options import LedgerOptions
from fairshares.harness.cli.report import tell
from fairshares.harness.cli.terminal import announce
from fairshares.harness.privacy.ledger.charge import populations_of
from fairshares.harness.views import ledger as view


def ledger(options: LedgerOptions) -> None:
    """Show the ledger; set a budget or retire a population first."""
    path, populations = populations_of(
        options.population, options.budget, options.ledger, options.retire, announce
    )
    shown = view.ledger(path, populations)
    fields = partial(view.to_json, path, populations)
    tell("ledger", "What was spent", shown, fields, plot=options.plot)
