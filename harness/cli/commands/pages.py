"""`invite`, and what `task` does for a page: they call and show."""

import os
from pathlib import Path

from fairshares.harness.cli.options import InviteOptions
from fairshares.harness.cli.terminal import plain, say
from fairshares.harness.errors import ShareError, cannot
from fairshares.harness.uploads import invitations
from fairshares.harness.uploads.files import check_place, write_file
from fairshares.harness.uploads.lists import count_stored
from fairshares.harness.uploads.page import BUILT, Site, check_meant, page_files, read_wording
from fairshares.harness.uploads.page_servers import page_server, upload_server
from fairshares.harness.uploads.task import ANYONE, Task, read_task
from fairshares.harness.views.upload_tasks import counted


def write_page(
    task: Task, out: Path, site: Site, *, wording: Path | None, is_open: bool, built: Path = BUILT
) -> None:
    """Write a task's page, and the configurations of its servers, into a new directory.

    Args:
        task: The task.
        out: The directory.
        site: Where the page will be served.
        wording: The file of its maker's words; None without one.
        is_open: Whether anybody may take part, if the task lets them.
        built: Where the build of `web/` wrote the page's script and style.

    Raises:
        OptionError: Anybody could take part, which was not said to be meant.
        ShareError: The directory is there, the wording is none, or the page's script is not built.
    """
    check_meant(task, is_open=is_open)
    if os.path.lexists(out):
        raise ShareError(f"{out} is there; name a new directory for the page.")
    wordings = {} if wording is None else read_wording(wording, task.domain)
    files = {f"public/{name}": content for name, content in page_files(task, wordings, built).items()}
    files["nginx/page.conf"] = page_server(task, site).encode()
    for party in range(len(task.parties)):
        server = upload_server(task, party, site)
        if server is not None:
            files[f"nginx/party-{party}.conf"] = server.encode()
    check_place(out / "public")
    for name, content in files.items():
        write_file(out / name, content)
    with cannot(f"write {out}", ShareError):
        for directory in (out, out / "public"):
            directory.chmod(0o755)  # a web server reads them
        for file in (out / "public").iterdir():
            file.chmod(0o644)
    say(
        f"The page is in {plain(str(out))}/public, to be served at {plain(site.address)}. "
        f"{plain(str(out))}/nginx has nginx's configuration for it, and for each party's server."
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
