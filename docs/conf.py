"""Sphinx' settings, and the pages that are made from the code."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Sphinx has an environment of its own; the project and its dependencies come after Sphinx' packages.
sys.path += [str(ROOT), *map(str, ROOT.glob(".venv/lib/python*/site-packages"))]

import tasks  # noqa: E402
from benchmarks.papers import privfairfl  # noqa: E402
from fairshares import harness  # noqa: E402
from fairshares.harness.cli.command_line import ROLES, Command  # noqa: E402
from fairshares.harness.request.fields import Option  # noqa: E402
from fairshares.harness.security_models import MODELS  # noqa: E402

project = "FairShares"
release = harness.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
smartquotes = False  # or they would change the -- of options
highlight_language = "text"
default_role = "code"  # of docstrings
add_module_names = False
autodoc_typehints_format = "short"
autodoc_default_options = {"exclude-members": "__new__, __init__"}
maximum_signature_line_length = 80
nitpick_ignore_regex = [("py:.*", ".*")]  # types, most of them of other packages
autodoc_class_signature = "separated"
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

# Pages whose text is a file elsewhere in the project.
ELSEWHERE = {
    "reference/benchmarks": "benchmarks/README.md",
    "reference/data": "data/README.md",
    "reference/loanapp": "data/loanapp.md",
    "reference/web": "web/README.md",
    "contributing": "CONTRIBUTING.md",
    "tests": "tests/README.md",
    "changes": "CHANGELOG.md",
    "security": "SECURITY.md",
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
_CODE_OR_MARK = re.compile(r"`[^`]*`|(?<!\w)(?:--[a-z][\w-]*|\$[A-Z_]+)|[<*_]")
# Browsers break a line after a dash, also before a no-break space, unless a word joiner is between them.
_DASH = "\N{EN DASH}\N{NO-BREAK SPACE}"
_DASH_THAT_HOLDS = "\N{EN DASH}\N{WORD JOINER}\N{NO-BREAK SPACE}"
_HEADING = re.compile(
    r"(?:^|(?<=[.:\]] ))(Source|Computes|Guarantees|Reveals|Edge cases|Attributes|Args|Returns|Raises):",
    re.MULTILINE,
)
_ARRAY_LIKE = re.compile(r"~numpy\._typing\._array_like\._Buffer.*?complex \| bytes \| str\]")
_ARRAY = re.compile(r"~numpy\.ndarray\[tuple\[.*?\], .*?\]\]")
_ARGUMENT = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def roles() -> str:
    """Return a table of the commands, a row for each role."""
    rows = [f"| {role} | {', '.join(f'`{name}`' for name in names)} |" for role, names in _by_role().items()]
    return "\n".join(["| used by | commands |", "|---|---|", *rows, ""])


def commands() -> str:
    """Return a section for each command and its options, by role."""
    return "\n".join(
        line
        for role, names in _by_role().items()
        for line in (
            f"\n## {role}",
            *(line for name in names for line in _command(name, tasks.namespace[name])),
        )
    )


def _by_role() -> dict[str, list[str]]:
    names = tasks.namespace.task_names
    return {role: [name for name in names if tasks.namespace[name].role == role] for role in ROLES}


def _command(name: str, command: Command) -> Iterator[str]:
    yield f"\n### `{name}`\n\n{_marked(command.__doc__ or '')}\n\n```{{program}} {name}\n```\n"
    if command.prints:
        yield f"With `--json`, prints {_marked(command.prints)}.\n"
    for option in command.options.values():
        yield f"```{{option}} {option.flag}{' …' if option.parse else ''}\n{_said(option)}.\n```\n"


def _said(option: Option[Any]) -> str:
    text = _marked(option.explained)
    if not option.example:
        return text
    unless = f", unless `--{option.unless.replace('_', '-')}` is" if option.unless else ""
    return f"{text}. Has to be given{unless}, for example `{option.flag} {option.example}`"


def _marked(text: str) -> str:
    """Return plain text as Markdown, with options and variables as code."""

    def mark(match: re.Match[str]) -> str:
        return match[0] if match[0][0] == "`" else f"`{match[0]}`" if len(match[0]) > 1 else f"\\{match[0]}"

    return _CODE_OR_MARK.sub(mark, text)


def models() -> str:
    """Return a table of the security models."""
    schemes = privfairfl().schemes
    rows = [
        f"| `{model.name}` | {model.engine} | {model.parties} "
        f"| {model.numbers_taken if model.numbers else '–'} "
        f"| {model.corruptions} {model.tolerates} "
        f"| {f'`{model.virtual_machine}`' if model.virtual_machine else '–'} "
        f"| {f'2^-{model.statistical_security_bits}' if model.statistical_security_bits else '–'} "
        f"| {schemes.get(model.name, '–')} |"
        for model in MODELS.values()
    ]
    names = (
        "| model | engine | parties | other numbers | withstands | MP-SPDZ's machine | may fail with "
        "| in PrivFairFL |"
    )
    return "\n".join([names, "|---" * 8 + "|", *rows, ""])


MADE = {
    "reference/commands": {"<!-- roles -->": roles, "<!-- made -->": commands},
    "reference/models": {"<!-- made -->": models},
}


def fill(_app: object, page: str, source: list[str]) -> None:
    """Fill a page with what code or another file says, and lead its links to pages of the site.

    Its intervals stay in one line.
    """
    for mark, make in MADE.get(page, {}).items():
        source[0] = source[0].replace(mark, make())
    file = ROOT / ELSEWHERE.get(page, f"docs/{page}.md")
    if page in ELSEWHERE:
        source[0] = file.read_text(encoding="utf-8")
    pages = {ROOT / other: HERE / f"{name}.md" for name, other in ELSEWHERE.items()}

    def lead(link: re.Match[str]) -> str:
        target, anchor = Path(os.path.normpath(file.parent / link[2])), link[3] or ""
        if target.suffix == ".md" and target not in pages and not target.is_relative_to(HERE):
            return f"{link[1]}path:{os.path.relpath(target, (HERE / page).parent)}"  # a file to download
        return link[1] + os.path.relpath(pages.get(target, target), (HERE / page).parent) + anchor

    source[0] = _LINK.sub(lead, source[0]).replace(_DASH, _DASH_THAT_HOLDS)


def shorten(
    _app: object,
    _what: str,
    _name: str,
    _object: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> list[str | None]:
    """Name numpy's types as people do, not by all that they stand for."""
    return [
        text and _ARRAY.sub("ndarray", _ARRAY_LIKE.sub("ArrayLike", text)) for text in (signature, returns)
    ]


def structure(
    _app: object, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Begin a paragraph at each heading and argument of a docstring."""
    lines[:] = _ARGUMENT.sub(_as_item, _HEADING.sub(r"\n\n**\1:**", "\n".join(lines))).splitlines()


def _as_item(argument: re.Match[str]) -> str:
    return f"\n`{argument[1]}`\n{re.sub('^ *', '    ', argument[2], flags=re.MULTILINE)}"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", structure)
