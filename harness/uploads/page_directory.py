"""The directory of a task's page: its public files, and nginx's configurations, by docs/how-to/page.md."""

import os
from pathlib import Path

from fairshares.harness.errors import ShareError, cannot
from fairshares.harness.uploads.files import check_place, write_file
from fairshares.harness.uploads.page import BUILT, Site, check_meant, page_files, read_wording
from fairshares.harness.uploads.page_servers import page_server, upload_server
from fairshares.harness.uploads.task import Task

PUBLIC = "public"  # the folder that a web server serves
SERVERS = "nginx"  # the configurations of servers
_READ_BY_ALL = 0o644
_ENTERED_BY_ALL = 0o755


def write_page(
    task: Task, out: Path, site: Site, *, wording: Path | None, is_open: bool, built: Path = BUILT
) -> None:
    """Write a task's page, and the configurations of its servers, into a new directory.

    Args:
        task: The task.
        out: The directory.
        site: The URL at which the page will be served.
        wording: The file of its maker's words; None without one.
        is_open: Whether anybody may take part, if the task lets them.
        built: The directory into which the build of `web/` wrote the page's script and style.

    Raises:
        OptionError: Anybody could take part, which was not said to be meant.
        ShareError: The directory is there, the wording is none, or the page's script is not built.
    """
    check_meant(task, is_open=is_open)
    if os.path.lexists(out):
        raise ShareError(f"{out} is there; name a new directory for the page.")
    wordings = {} if wording is None else read_wording(wording, task.domain)
    public = page_files(task, wordings, built)
    servers = _configurations(task, site)
    check_place(out / PUBLIC)
    for name, content in public.items():
        write_file(out / PUBLIC / name, content)
    for name, text in servers.items():
        write_file(out / SERVERS / name, text.encode())
    with cannot(f"write {out}", ShareError):
        for directory in (out, out / PUBLIC):
            directory.chmod(_ENTERED_BY_ALL)  # a web server reads them
        for file in (out / PUBLIC).iterdir():
            file.chmod(_READ_BY_ALL)


def _configurations(task: Task, site: Site) -> dict[str, str]:
    """Return nginx's configurations by file: of the page, and of each party's server that takes uploads."""
    configurations = {"page.conf": page_server(task, site)}
    for party in range(len(task.parties)):
        server = upload_server(task, party, site)
        if server is not None:
            configurations[f"party-{party}.conf"] = server
    return configurations
