"""`share --round`: a client's update for a round of a training, sealed once, and sent."""

from pathlib import Path

from fairshares.harness.cli.options import ShareOptions
from fairshares.harness.cli.terminal import announce, plain, say, steps
from fairshares.harness.errors import OptionError, named
from fairshares.harness.pipeline.tasks import revealed_by_runs
from fairshares.harness.training.client_round import check_task, read_round, update_of
from fairshares.harness.uploads.task import Task
from fairshares.harness.uploads.vectors import UpdateClient
from fairshares.harness.views.run_summary import STEPS
from fairshares.harness.views.upload_tasks import meaning


def share_update(options: ShareOptions, task: Task, file: Path) -> None:
    """Seal one client's update for a round, unless it has sealed one before, and send it.

    Args:
        options: The options that the client has given.
        task: The task of vectors.
        file: The round's file.
    """
    others = options.stated("epsilon", "delta", "counted", "for_tasks", "privacy_unit")
    if others:
        raise OptionError(
            f"{named(others[0])} is for uploads of records, and the task says what all reveals of vectors "
            f"spend; leave it out beside {named('round')}."
        )
    asked = read_round(file)
    check_task(asked, task)
    if options.check:
        assert options.records is not None  # as nothing is sent
        update = update_of(asked, options.records, announce)
        for line in meaning(task, revealed_by_runs(task)):
            say(plain(line))
        say(f"An update of {len(update):,} numbers would be sealed for reveal {asked.reveal}; nothing was.")
        return
    assert options.out is not None  # it goes without for --check alone
    client = UpdateClient(task, options.out)
    if options.records and client.sealed(asked.reveal) is None:
        with steps(STEPS) as begin:
            begin("records")
            update = update_of(asked, options.records, announce)
            begin("share")
            client.seal(asked.reveal, update)
        say(f"Sealed an update for reveal {asked.reveal} of {client.reveals}, in {plain(str(options.out))}.")
    elif options.records:
        announce(f"An update for reveal {asked.reveal} was sealed before; it stays as it is.")
    if options.to:
        with steps(STEPS) as begin:
            begin("share")
            stored = client.send(asked.reveal, options.to, options.certificate)
        ends = ", ".join(f"{number:,} {how}" for how, number in stored.items())
        say(f"Reveal {asked.reveal}: {ends or 'nothing to send'}.")
