"""`invite`, and what `task` does for a page: they call and show."""

from pathlib import Path

from fairshares.harness.cli.options import InviteOptions
from fairshares.harness.cli.terminal import plain, say
from fairshares.harness.uploads import invitations
from fairshares.harness.uploads.lists import count_stored
from fairshares.harness.uploads.page import Site
from fairshares.harness.uploads.page_directory import PUBLIC, SERVERS
from fairshares.harness.uploads.task import ANYONE, Task, read_task
from fairshares.harness.views.upload_tasks import counted


def show_page(task: Task, out: Path, site: Site) -> None:
    """Say where a task's page is, and who can take part from it."""
    where = plain(str(out))
    say(
        f"The page is in {where}/{PUBLIC}, to be served at {plain(site.address)}. "
        f"{where}/{SERVERS} has nginx's configuration for it, and for each party's server."
    )
    if task.admission == ANYONE:
        say("Anybody who has its address can take part, any number of times, and the page says so.")


def say_status(task: Task, lists: Path, invited: Path | None) -> None:
    """Say how many uploads the parties have, and how many were invited; no identity and no time."""
    if invited is not None:
        made = invitations.read_invitations(invited, task)
        say(f"Invited: {counted(len(made.valid), 'link')}, beside {made.revoked:,} revoked.")
    stored = count_stored(lists, task)
    say(
        f"Stored at all parties: {counted(stored.at_all, 'upload')}. At some parties alone: "
        f"{counted(stored.at_some, 'upload')}."
    )


def invite(options: InviteOptions) -> None:
    """Make and revoke links, and say how many there are."""
    task = read_task(options.task)
    made = invitations.invite(task, options.directory, options.site, options.number, options.revoke or ())
    where = plain(str(options.directory))
    say(
        f"{counted(len(made.valid), 'link')} to {plain(made.site)} in {where}/{invitations.LINKS}; "
        f"{made.revoked:,} revoked."
    )
    say(
        f"Give each party its own {where}/party-<i>.invited, and nothing else of this directory. Whoever has "
        "a link can use it once."
    )
