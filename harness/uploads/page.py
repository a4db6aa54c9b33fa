"""A page from which people and organizations take part in a task, as static files, by docs/how-to/page.md."""

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from fairshares.harness.errors import OptionError, ShareError, named
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.system.documents import SMALL, Refusal, as_type, read_json
from fairshares.harness.system.files import read_bounded
from fairshares.harness.uploads.files import TASK_FILE
from fairshares.harness.uploads.task import ANYONE, Task

LANGUAGES = ("de", "en")  # those of web/page/texts
BUILT = Path(__file__).parent / "page_files"  # `npm run build` in web/ writes script and style there
_SCRIPT = "page.js"
_STYLE = "page.css"
_LICENSES = "LICENSES.txt"
_MOST_BYTES = 1 << 23  # bytes of a built file
_HTTPS = "https://"
_SITE = re.compile(r"https://[a-z0-9.:\[\]-]+/([A-Za-z0-9._~-]+/)*")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="fairshares-task" content="{task}">
<meta name="fairshares-wording" content="{wording}">
<title>FairShares</title>
<link rel="stylesheet" href="page.css"{style}>
<script src="page.js"{script} defer></script>
</head>
<body>
<div id="page"><main><h1>FairShares</h1>
<p>Loading … If nothing else appears: some browsers open from-file.html, not index.html, from a disk.</p>
<p lang="de">Wird geladen … Wenn sonst nichts erscheint: Manche Browser öffnen von einem Datenträger
from-file.html und nicht index.html.</p></main></div>
<noscript>
<p>This page needs JavaScript, as it seals your answer in your browser.</p>
<p lang="de">Diese Seite braucht JavaScript, denn sie versiegelt Ihre Antwort in Ihrem Browser.</p>
</noscript>
</body>
</html>
"""


@dataclass(frozen=True)
class Wording:
    """The texts of a task's maker in a language: a title, a purpose, whom to ask, questions, and terms.

    `groups` and `labels` have words for the names of the task. What ends in `_help` explains a question's
    terms beside it. The page has words of its own for what is None.
    """

    title: str | None = None
    purpose: str | None = None
    contact: str | None = None
    group: str | None = None
    group_help: str | None = None
    groups: dict[str, str] | None = None
    label: str | None = None
    label_help: str | None = None
    labels: dict[str, str] | None = None
    prediction: str | None = None
    prediction_help: str | None = None
    score: str | None = None
    score_help: str | None = None
    value: str | None = None
    value_help: str | None = None


@dataclass(frozen=True)
class Site:
    """The URL at which a page is served: `https://`, a name, and a path that ends in a slash."""

    address: str

    @property
    def name(self) -> str:
        """The address, as users type it."""
        return self.address

    @property
    def origin(self) -> str:
        """The name of the page's server that a browser sends, in the header `Origin`."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def host(self) -> str:
        """The server's name, without a port."""
        return urlsplit(self.address).hostname or ""

    @property
    def port(self) -> int:
        """The server's port, 443 unless the address has another."""
        return urlsplit(self.address).port or 443

    @property
    def path(self) -> str:
        """The path, from its first slash to its last."""
        return urlsplit(self.address).path


def parse_site(text: str, option: str) -> Site:
    """Return the site of an address such as https://take-part.example.org/, or raise OptionError."""
    if not _SITE.fullmatch(text):
        raise OptionError(
            f"{named(option)} must be where the page is served, https://, a name in lower case, and a path "
            f"that ends in a slash, as https://take-part.example.org/ is; got {text!r}."
        )
    return Site(text)


def read_wording(path: Path, domain: RecordDomain) -> dict[str, Wording]:
    """Return the wording in each language of a file; raise ShareError for what is none of this task."""
    refusal = Refusal(ShareError, str(path), "the wording of a page", "correct it, as the page on pages says")
    wordings = as_type(dict[str, Wording], read_json(path, refusal, limits=SMALL), refusal)
    for language, wording in wordings.items():
        if language not in LANGUAGES:
            refusal.say(f"the page has the languages {' and '.join(LANGUAGES)}, and not {language[:40]!r}")
        for what, words, names in (
            ("group", wording.groups, domain.groups),
            ("label", wording.labels, domain.labels),
        ):
            unknown = set(words or {}) - set(names)
            if unknown:
                refusal.say(f"the task has no {what} {min(unknown)[:40]!r}")
    return wordings


def check_meant(task: Task, *, is_open: bool) -> None:
    """Raise OptionError for a page from which anybody could take part, unless that is meant."""
    if task.admission == ANYONE and not is_open:
        raise OptionError(
            "By this task, anybody who reaches the page could take part, any number of times. Make a task by "
            f"{named('admission', 'urls')}, for one-time links. Or add {named('open_link')} if that is "
            "meant; the page then says so."
        )


def page_files(task: Task, wordings: dict[str, Wording], built: Path = BUILT) -> dict[str, bytes]:
    """Return the static files of a page, by name; the same for the same task, wording and build.

    Guarantees: the page loads from its own place alone, connects to the parties' addresses in the task alone,
    and has no inline script or style.  [test: tests/harness/uploads/test_page.py]

    Args:
        task: The task.
        wordings: The words of its maker, by language.
        built: The directory into which the build of `web/` wrote script and style.

    Raises:
        OptionError: The task is of vectors, which programs send.
        ShareError: The page's script is not built there.
    """
    if task.domain.vectors is not None:
        raise OptionError(
            f"A page asks people for records, and this task is of vectors; leave out {named('page')}."
        )
    script, style, licenses = (_read(built / name) for name in (_SCRIPT, _STYLE, _LICENSES))
    stated = {language: _stated(wording) for language, wording in wordings.items()}
    said = {
        "policy": escape(content_policy(task)),
        "task": escape(task.text.decode()),
        "wording": escape(json.dumps(stated, sort_keys=True, ensure_ascii=False)),
    }
    files = {
        "index.html": _PAGE.format(**said, style=_integrity(style), script=_integrity(script)).encode(),
        "from-file.html": _PAGE.format(**said, style="", script="").encode(),
        _SCRIPT: script,
        _STYLE: style,
        _LICENSES: licenses,
        TASK_FILE: task.text,
    }
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())]
    return {**files, "SHA256SUMS": "".join(sums).encode()}


def content_policy(task: Task) -> str:
    """Return the Content Security Policy of a task's page."""
    addresses = [party.address for party in task.parties if party.address.startswith(_HTTPS)]
    sources = [address.replace(";", "%3B").replace(",", "%2C") for address in addresses]
    connect = " ".join(dict.fromkeys(sources)) or "'none'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _stated(wording: Wording) -> dict[str, str | dict[str, str]]:
    """Return the texts of a wording's own."""
    values: dict[str, str | dict[str, str] | None] = {
        field.name: value for field, value in zip(fields(wording), asdict(wording).values(), strict=True)
    }
    return {name: value for name, value in values.items() if value is not None}


def _integrity(content: bytes) -> str:
    """Return the attribute by which a browser takes no other content; some cannot check it in a file."""
    digest = base64.b64encode(hashlib.sha384(content).digest()).decode()
    return f' integrity="sha384-{digest}"'


def _read(file: Path) -> bytes:
    """Return the content of a file that the build of `web/` writes, or raise ShareError."""
    try:
        return read_bounded(file, _MOST_BYTES)
    except OSError:
        raise ShareError(
            "The page's script is not built here; run `npm ci && npm run build` in the folder web of a "
            "clone, with Node 20 or later, and repeat the command there."
        ) from None
