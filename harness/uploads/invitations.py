"""One-time links to a task's page: made, counted and revoked by the task's maker, by docs/how-to/page.md.

A link carries a secret of 16 random bytes. From it follows, for each party, a token, which is the name that
its upload has at that party's server. A party is given its own tokens alone, so no party learns a link, nor
what another party knows it by.
"""

import base64
import csv
import hashlib
import io
import json
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairshares.harness.errors import OptionError, ShareError, cannot, named, named_command
from fairshares.harness.system.documents import RESULT, Refusal, as_type, read_json
from fairshares.harness.system.files import in_turn
from fairshares.harness.uploads.files import SUFFIX, check_place, write_file
from fairshares.harness.uploads.page import Site
from fairshares.harness.uploads.task import URLS, Task

SCHEMA = 1
MOST = 10**6
INVITATIONS_FILE = "invitations.json"  # the maker's own record of all links
LINKS = "links.csv"  # the file for whoever sends the links out
_LABEL = b"fairshares:invitation:1\n"
_SECRET_BYTES = 16
_FRAGMENT = re.compile(r"#task=([0-9a-f]{16})&invitation=([A-Za-z0-9_-]{22})$")


@dataclass(frozen=True)
class OneTimeLink:
    """A link. Attributes: number: from 1; secret: in base64url; revoked: whether it is to work no more."""

    number: int
    secret: str
    revoked: bool = False


@dataclass(frozen=True)
class OneTimeLinks:
    """All links of a task that were made in a directory."""

    task: str
    site: str
    made: list[OneTimeLink]

    @property
    def valid(self) -> list[OneTimeLink]:
        """The links that were not revoked."""
        return [invitation for invitation in self.made if not invitation.revoked]

    @property
    def revoked(self) -> int:
        """The number of those that were revoked."""
        return len(self.made) - len(self.valid)


def token(task: Task, secret: bytes, party: int) -> str:
    """Return the name, in 64 hexadecimal digits, that an invitation's upload has at a party's server.

    Guarantees: a party's token is the SHA-256 of the secret and public facts, so it tells nothing of the
    other parties' tokens.  [test: tests/harness/uploads/test_invitations.py]
    """
    return hashlib.sha256(_LABEL + task.digest + secret + bytes([party])).hexdigest()


def link(task: Task, site: Site, invitation: OneTimeLink) -> str:
    """Return an invitation's link. A browser does not send what is after the `#` to any server."""
    return f"{site.address}#task={task.name[:16]}&invitation={invitation.secret}"


def addresses_in(link_text: str, task: Task) -> list[str]:
    """Return the address for each party's envelope of a link, party 0 first, or raise OptionError."""
    found = _FRAGMENT.search(link_text)
    if found is None:
        raise OptionError(f"{named('to')} is no whole link; give it as you got it, in quotation marks.")
    if found[1] != task.name[:16]:
        raise OptionError(
            f"The link is for task {found[1]}, not {task.name[:16]}; take the file of its task."
        )
    secret = base64.urlsafe_b64decode(found[2] + "==")
    return [
        f"{party.address}{token(task, secret, number)}{SUFFIX}" for number, party in enumerate(task.parties)
    ]


def read_invitations(directory: Path, task: Task) -> OneTimeLinks:
    """Return the links that were made in a directory, or raise ShareError."""
    file = directory / INVITATIONS_FILE
    refusal = Refusal(
        ShareError,
        str(file),
        "a record of invitations",
        f"name the directory that {named_command('invite')} wrote",
    )
    with cannot(f"read {file}", ShareError, f"name the directory that {named_command('invite')} wrote"):
        read = as_type(OneTimeLinks, read_json(file, refusal, SCHEMA, RESULT), refusal)
    if read.task != task.name:
        raise ShareError(
            f"{file} is of task {read.task[:16]}, not {task.name[:16]}; name that task's directory."
        )
    return read


def invite(
    task: Task, directory: Path, site: Site | None, number: int, revoked: Collection[int]
) -> OneTimeLinks:
    """Make new links, revoke others, write all files of a directory anew, and return all links.

    Files: the record `invitations.json` and the links `links.csv`, which are secret, and for each party
    `party-<i>.invited`, its tokens, a line each and sorted, so that their order tells nothing.

    Args:
        task: The task, whose parties take uploads by one-time links.
        directory: The directory that holds the files, or will hold them.
        site: The URL at which the page is served; None if the directory has it already.
        number: How many links are added.
        revoked: The numbers of links that are to work no more.

    Raises:
        OptionError: The task is for no links, there is no site, or no link has one of the numbers.
        ShareError: Others could replace the files, or these are of another task.
    """
    if task.admission != URLS:
        raise OptionError(
            f"The task is for no one-time links: it says {task.admission}. Make a task by "
            f"{named('admission', URLS)}."
        )
    if not all(party.address.startswith("https://") for party in task.parties):
        raise OptionError(
            "A party of the task has no address of https, so its server knows no one-time links; make "
            "presigned URLs by its store's own tools."
        )
    check_place(directory / INVITATIONS_FILE)
    with cannot(f"write {directory}", ShareError), in_turn(directory):
        if (directory / INVITATIONS_FILE).exists():
            before = read_invitations(directory, task)
        else:
            before = OneTimeLinks(task.name, "", [])
        address = before.site if site is None else site.address
        if not address:
            raise OptionError(
                f"Say where the page is served, by {named('site', 'https://take-part.example.org/')}."
            )
        after = replace(before, site=address, made=_changed(before.made, number, revoked))
        _write(after, task, directory)
    return after


def _changed(made: Sequence[OneTimeLink], number: int, revoked: Collection[int]) -> list[OneTimeLink]:
    """Return links with some of them revoked, by number, and new ones after them; raise OptionError."""
    unknown = set(revoked) - {invitation.number for invitation in made}
    if unknown:
        raise OptionError(f"There is no invitation {min(unknown)}; {named('revoke')} has numbers of {LINKS}.")
    if len(made) + number > MOST:
        raise OptionError(f"A task has {MOST:,} invitations at most; make another task.")
    kept = [
        replace(invitation, revoked=invitation.revoked or invitation.number in revoked) for invitation in made
    ]
    new = [OneTimeLink(len(made) + i + 1, secrets.token_urlsafe(_SECRET_BYTES)) for i in range(number)]
    return [*kept, *new]


def _write(invitations: OneTimeLinks, task: Task, directory: Path) -> None:
    record = {"schema": SCHEMA, **asdict(invitations)}
    write_file(directory / INVITATIONS_FILE, json.dumps(record).encode() + b"\n")
    site = Site(invitations.site)
    rows = [(invitation.number, link(task, site, invitation)) for invitation in invitations.valid]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("number", "link"))
    writer.writerows(rows)
    write_file(directory / LINKS, text.getvalue().encode())
    for party in range(len(task.parties)):
        tokens = sorted(
            token(task, base64.urlsafe_b64decode(invitation.secret + "=="), party)
            for invitation in invitations.valid
        )
        write_file(directory / f"party-{party}.invited", "".join(f"{name}\n" for name in tokens).encode())
