"""`ledger`."""

from functools import partial

from fairshares.harness.cli.options import LedgerOptions
from fairshares.harness.cli.report import tell
from fairshares.harness.cli.terminal import announce
from fairshares.harness.privacy.ledger.charge import chosen_ledger, populations_of
from fairshares.harness.uploads.task import read_task
from fairshares.harness.views import ledger as view
from fairshares.harness.views.upload_tasks import counted


def ledger(options: LedgerOptions) -> None:
    """Show the ledger; set a budget, retire a population or close a task first, and copy it."""
    path, populations = populations_of(
        options.population, options.budget, options.ledger, options.retire, announce
    )
    if options.close_task:
        _close(options)
    if options.copy:
        chosen_ledger(options.ledger).copy_to(options.copy)
        announce(f"{options.copy} has the ledger as it is now.")
    shown = view.ledger(path, populations)
    fields = partial(view.to_json, path, populations)
    tell("ledger", "What was spent", shown, fields, plot=options.plot)


def _close(options: LedgerOptions) -> None:
    """Close a task whose last day is over."""
    assert options.close_task is not None
    task = read_task(options.close_task)
    task.check_over()
    place = chosen_ledger(options.ledger)
    forgotten = place.close_task(task.name)
    announce(
        f"Task {task.name[:16]} is closed in {place.path}: no run takes its uploads any more. It forgot "
        f"{counted(forgotten, 'upload')} that runs had counted. Their charges stay."
    )
