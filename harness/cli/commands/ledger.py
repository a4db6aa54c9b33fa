"""`ledger`."""

from functools import partial

from fairshares.harness.cli.options import LedgerOptions
from fairshares.harness.cli.report import tell
from fairshares.harness.cli.terminal import announce
from fairshares.harness.privacy.ledger.charge import chosen_ledger, populations_of
from fairshares.harness.views import ledger as view


def ledger(options: LedgerOptions) -> None:
    """Show the ledger; set a budget or retire a population first, and copy it."""
    path, populations = populations_of(
        options.population, options.budget, options.ledger, options.retire, announce
    )
    if options.copy:
        chosen_ledger(options.ledger).copy_to(options.copy)
        announce(f"{options.copy} has the ledger as it is now.")
    shown = view.ledger(path, populations)
    fields = partial(view.to_json, path, populations)
    tell("ledger", "What was spent", shown, fields, plot=options.plot)
