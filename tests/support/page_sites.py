"""A task's page and three parties' web servers, by nginx and the project's configurations, on loopback."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.uploads.invitations import OneTimeLinks, invite, link
from fairshares.harness.uploads.page import Site
from fairshares.harness.uploads.page_directory import write_page
from fairshares.harness.uploads.task import ANYONE, URLS, Task
from tests.support.envelopes import DOMAIN, counts, made_task, revealed
from tests.support.running import until
from tests.support.servers import HOST, certify

_MAIN = """
daemon off; pid {0}/pid; error_log {0}/error.log; user root;
events {{}}
http {{
    fastcgi_temp_path {0}/a; proxy_temp_path {0}/b; scgi_temp_path {0}/c; uwsgi_temp_path {0}/d;
    include {0}/conf/*.conf;
}}
"""


def nginx() -> str:
    """Return nginx's path, or skip where it is not installed."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if program is None:
        pytest.skip("there is no nginx (Debian's package nginx-light)")
    return program


@dataclass
class PageSite:
    """A running page, and its parties' servers.

    Attributes:
        task: The task.
        place: With `keys-<i>` and, below `party-<i>`, each party's uploads.
        site: Where the page is.
        server: The process of nginx.
        invited: All links, of a task by links.
    """

    task: Task
    place: Path
    site: Site
    server: "subprocess.Popen[bytes]"
    invited: OneTimeLinks | None

    def link(self, number: int) -> str:
        """Return the link of an invitation, by its number from 1."""
        assert self.invited is not None
        return link(self.task, self.site, self.invited.made[number - 1])

    def let_in(self) -> None:
        """Bring each party's list of links to its server, as docs/how-to/page.md does."""
        for party in range(len(self.task.parties)):
            tokens = (self.place / "invited" / f"party-{party}.invited").read_text().split()
            at_server = self.place / f"party-{party}" / "invited"
            for name in tokens:
                (at_server / name).touch()
            for file in at_server.iterdir():
                if file.name not in tokens:
                    file.unlink()

    def revoke(self, number: int) -> None:
        self.invited = invite(self.task, self.place / "invited", None, 0, [number])
        self.let_in()

    @contextmanager
    def without(self, party: int) -> Iterator[None]:
        """In the block, nobody listens at a party's address."""
        conf = self.place / "conf" / f"party-{party}.conf"
        aside = conf.with_suffix(".aside")
        port = int(self.task.parties[party].address.split(":")[2].split("/")[0])
        conf.rename(aside)
        self._reload(port, listens=False)
        try:
            yield
        finally:
            aside.rename(conf)
            self._reload(port, listens=True)

    def _reload(self, port: int, *, listens: bool) -> None:
        self.server.send_signal(signal.SIGHUP)

        def is_done() -> bool:
            with socket.socket() as probe:
                return (probe.connect_ex((HOST, port)) == 0) == listens

        until(is_done)

    def stored(self, party: int) -> list[Path]:
        return sorted((self.place / f"party-{party}" / "uploads" / "2027").iterdir())

    def identities(self) -> set[str]:
        """Return the uploads that every party can open."""
        self.sums()
        made = counts(self.task, self.place, shares=self.place / "shares")
        return set.intersection(*({*count.identities} for count in made))

    def sums(self) -> tuple[int, list[int]]:
        """Return how many uploads count at all parties, and the sum of their rows."""
        shares = self.place / "shares"
        shares.mkdir(exist_ok=True)
        for party in range(len(self.task.parties)):
            target = shares / f"party-{party}"
            if not target.exists():
                target.symlink_to(self.place / f"party-{party}" / "uploads" / "2027")
        made = counts(self.task, self.place, shares=shares)
        assert all(not count.unsound for count in made)
        return len(made[0].identities), revealed(self.task, [count.values for count in made])


@contextmanager
def serving_page(
    place: Path,
    built: Path,
    *,
    admission: str = URLS,
    domain: RecordDomain = DOMAIN,
    links: int = 0,
    wording: Path | None = None,
    rate: str = "9000r/s",
    trusted: Path | None = None,
) -> Iterator[PageSite]:
    """Make a task, write its page, and serve all of it.

    Args:
        place: An empty directory.
        built: Where the page's script and style are.
        admission: As in the task.
        domain: As in the task.
        links: How many invitations are made.
        wording: A file of the maker's words.
        rate: How many requests of an address servers take.
        trusted: The certificate of clients that servers let in, if the task asks for one.
    """
    program = nginx()
    with free_ports(4) as (at, *ports):
        place.mkdir(exist_ok=True)
        base = made_task(place, domain=domain)
        parties = [
            replace(party, address=f"https://{HOST}:{port}/2027/")
            for party, port in zip(base.parties, ports, strict=True)
        ]
        task = replace(base, parties=parties, admission=admission)
        site = Site(f"https://{HOST}:{at}/study/")
        write_page(task, place / "page", site, wording=wording, is_open=admission == ANYONE, built=built)
        certify(place)
        (place / "conf").mkdir()
        for file in (place / "page" / "nginx").iterdir():
            own = place / file.stem
            text = file.read_text()
            for old, new in (
                (f"    listen {at} ", f"    listen {HOST}:{at} "),
                *((f"    listen {port} ", f"    listen {HOST}:{port} ") for port in ports),
                ("/etc/ssl/certs/page.pem", str(place / "server.pem")),
                ("/etc/ssl/private/page.key", str(place / "server.key")),
                ("/etc/ssl/certs/uploads.pem", str(place / "server.pem")),
                ("/etc/ssl/private/uploads.key", str(place / "server.key")),
                ("/srv/page", str(place / "page" / "public")),
                ("/srv/uploads/invited", str(own / "invited")),
                ("/srv/uploads", str(own / "uploads")),
                ("rate=60r/m", f"rate={rate}"),
                ("/etc/ssl/certs/clients.pem", str(trusted)),
            ):
                text = text.replace(old, new)
            (place / "conf" / file.name).write_text(text)
        for party in range(len(parties)):
            for name in ("uploads/2027", "uploads/partial", "invited"):
                (place / f"party-{party}" / name).mkdir(parents=True)
        (place / "nginx.conf").write_text(_MAIN.format(place))
        invited = invite(task, place / "invited", site, links, []) if links else None
        server = subprocess.Popen([program, "-p", place, "-c", place / "nginx.conf"], stderr=subprocess.PIPE)

        def answers() -> bool:
            assert server.poll() is None, server.stderr and server.stderr.read()
            with socket.socket() as probe:
                return probe.connect_ex((HOST, at)) == 0

        try:
            until(answers)
            made = PageSite(task, place, site, server, invited)
            if links:
                made.let_in()
            yield made
        finally:
            server.terminate()
            server.communicate()


def stand_in_build(place: Path) -> Path:
    """Write what `npm run build` would of a page's script and style, which nobody opens; return the place."""
    for name in ("page.js", "page.css", "LICENSES.txt"):
        (place / name).write_text(f"{name}\n")
    return place
