"""Reads the README and the site's pages: their snippets, what each is followed by, and what is said of it.

A block of `python` or `sh` is run, top to bottom, unless a comment before it says why not. A block of `text`
right after one is what it prints: the same words, and numbers where it has numbers, or, after `exact`, those
numbers. Comments are HTML's, which neither GitHub nor the site shows:

    <!-- not run: needs three machines -->      before a block
    <!-- exact -->                              before what is printed
    <!-- rows vary -->                          likewise: a table whose rows depend on the noise in form, too
    <!-- said by: ./inv weights -->             below a heading that is the message of that command's error
    <!-- needs MP-SPDZ --> <!-- on hosts -->    of the whole page; `on 5 hosts` for that many parties
    <!-- roles apart -->                        likewise: `tests/support/roles.py` runs its blocks
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.conftest import PROJECT

RUN = ("python", "sh")
SHOWN = ("text", "toml", "json", "csv")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_NUMBER = r"[-−+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RULE = re.compile(r"[─━┄═┌┐└┘├┤┬┴┼┏┓┗┛┡┩┢┪┳┻╇╈╋│┃|+]+|-{3,}")


@dataclass
class Snippet:
    """A block of code. Attributes: line: its first; said: comments before it; output: what it prints."""

    line: int
    language: str
    text: str
    said: list[str]
    output: "Snippet | None" = None

    @property
    def not_run(self) -> str:
        """Why it is not run, "" if it is."""
        return next(
            (comment.partition(":")[2].strip() for comment in self.said if comment.startswith("not run")), ""
        )


@dataclass
class Page:
    """What a page has that can be run.

    Attributes: spans, links: line and text of code in prose, and of what is linked or shown; anchors: of
    headings, as GitHub makes them; errors: line, command and the message that it ends with; said: all
    comments.
    """

    path: Path
    snippets: list[Snippet] = field(default_factory=list)
    spans: list[tuple[int, str]] = field(default_factory=list)
    errors: list[tuple[int, str, str]] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    @property
    def hosts(self) -> int | None:
        """How many hosts the page runs on; 0 for as many as the default model has parties, None for none."""
        for comment in self.said:
            if match := re.fullmatch(r"on (?:(\d+) )?hosts", comment):
                return int(match[1] or 0)
        return None

    def __str__(self) -> str:
        return str(self.path.relative_to(PROJECT))


def pages() -> list[Page]:
    """Return the README and the pages of the site."""
    pages = [path for path in (PROJECT / "docs").rglob("*.md") if "_build" not in path.parts]
    return [read(path) for path in (PROJECT / "README.md", *sorted(pages))]


def read(path: Path) -> Page:
    """Return what is on a page."""
    page, said, heading, last = Page(path), list[str](), "", None
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block":
            said += _COMMENT.findall(token.content)
            page.said += _COMMENT.findall(token.content)
            for comment in _COMMENT.findall(token.content):
                if comment.startswith("said by: "):
                    page.errors.append((_line(token), comment.removeprefix("said by: "), heading))
        elif token.type in ("fence", "code_block"):
            snippet = Snippet(_line(token) + (token.type == "fence"), token.info.strip(), token.content, said)
            if last and snippet.language == "text":
                last.output = snippet
            page.snippets.append(snippet)
            said, last = [], snippet if snippet.language in RUN else None
        elif token.type == "inline":
            children, line = token.children or [], _line(token)
            page.spans += [(line, child.content) for child in children if child.type == "code_inline"]
            targets = (child.attrGet("href") or child.attrGet("src") for child in children)
            page.links += [(line, str(target)) for target in targets if target]
            said, last = [], None
            if before is not None and before.type == "heading_open":
                heading = token.content
                text = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                page.anchors.add(text)
                heading = heading.strip("`")
    return page


def snippets(page: str, *beginnings: str) -> list[str]:
    """Return, of the commands on a page of the site, the first block that begins so, for each beginning."""
    blocks = [block.text for block in read(PROJECT / "docs" / page).snippets if block.language == "sh"]
    return [next(block for block in blocks if block.startswith(start)) for start in beginnings]


def _line(token: Token) -> int:
    return (token.map or [0])[0] + 1


def prints(expected: str, found: str, *, exact: bool) -> bool:
    """Return whether that was printed: its words, with any numbers unless exact; … stands for anything."""

    def pattern(word: str) -> str:
        parts = re.split(rf"({_NUMBER}|…)", word)
        return "".join(
            ".*?" if part == "…" else re.escape(part) if i % 2 == 0 or exact else _NUMBER
            for i, part in enumerate(parts)
        )

    words = r"\s+".join(map(pattern, _RULE.sub(" ", expected).split()))
    return re.search(words, _RULE.sub(" ", found), re.DOTALL) is not None
