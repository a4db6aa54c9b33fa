"""What is absent is None, or has no field: an empty text is a text, wherever code hands it on."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT

_FORMAT = "the file has it, as in version 1.0; what reads and writes the file says None"
_COORDINATOR = "the name of a key whose command names nobody, as the ledger and the log have it"
_SENTENCE = "a part of a sentence, which may have none"
_SHOWN = "a text that is shown, which may be empty"
_DECLARED = "a text of a command's help or of its declaration"
OF_TEXTS = {
    "fairshares/_results.py: Result._task": _DECLARED,
    "fairshares/_shown.py: plot.kind": _DECLARED,
    "harness/cli/module_checks.py: Selection.chosen": _SHOWN,
    "harness/cli/report.py: present.file": _SHOWN,
    "harness/engines/mpyc/names.py: __call__.text": "MP-SPDZ's own name and its parameter",
    "harness/engines/mpyc/names.py: _print_ln.text": "MP-SPDZ's own name and its parameter",
    "harness/errors.py: as_flag.value": _SENTENCE,
    "harness/errors.py: as_keyword.value": _SENTENCE,
    "harness/errors.py: cannot.remedy": _SENTENCE,
    "harness/errors.py: named.value": _SENTENCE,
    "harness/forecast/requested.py: planned.command": _SHOWN,
    "harness/hosts/agent.py: __init__.coordinator": _COORDINATOR,
    "harness/hosts/fleet.py: fit_hosts.otherwise": _SENTENCE,
    "harness/hosts/host_log.py: LogLine.run": _FORMAT,
    "harness/online/messages.py: connected.knocks": "bytes that are sent, of which there may be none",
    "harness/request/fields.py: Options.also": _DECLARED,
    "harness/request/fields.py: Options.first": _DECLARED,
    "harness/request/fields.py: Options.prints": _DECLARED,
    "harness/request/fields.py: __call__.option": _DECLARED,
    "harness/request/fields.py: __init__.default": _DECLARED,
    "harness/request/fields.py: __init__.example": _DECLARED,
    "harness/request/fields.py: __init__.option": _DECLARED,
    "harness/request/fields.py: __init__.unless": _DECLARED,
    "harness/request/fields.py: several.option": _DECLARED,
    "harness/request/plans.py: in_plan.value": _SENTENCE,
    "harness/request/request.py: Request.slots": _DECLARED,
    "harness/uploads/keys.py: SealingParty.signing": _FORMAT,
    "harness/uploads/lists.py: _ListHead.signature": _FORMAT,
    "harness/views/ledger.py: _spent_of.how": _SENTENCE,
    "harness/views/parts.py: Heading.detail": _SHOWN,
    "harness/views/parts.py: Paragraph.strong": _SHOWN,
    "harness/views/parts.py: Table.alignment": _SHOWN,
    "harness/views/parts.py: Table.caption": _SHOWN,
    "harness/views/parts.py: Table.title": _SHOWN,
    "harness/views/run_summary.py: seconds_and_traffic.each": _SENTENCE,
    "protocols/noise/added.py: __init__.or_else": _SENTENCE,
}
"""Fields and parameters that are an empty text unless they are given, each with the reason."""


def is_empty_text(value: ast.expr | None) -> bool:
    """Return whether an expression is an empty text."""
    return isinstance(value, ast.Constant) and isinstance(value.value, str | bytes) and not value.value


def empty_by_default(tree: ast.Module) -> Iterator[str]:
    """Yield the fields and parameters that are an empty text unless they are given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and is_empty_text(field.value):
                    yield f"{node.name}.{ast.unparse(field.target)}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            positional = [*given.posonlyargs, *given.args]
            with_default = positional[len(positional) - len(given.defaults) :]
            for parameter, default in (
                *zip(with_default, given.defaults, strict=True),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ):
                if is_empty_text(default):
                    yield f"{node.name}.{parameter.arg}"


def found() -> set[str]:
    """Return what `empty_by_default` yields of everything that users install, with its module."""
    of_modules = set[str]()
    for package in ("data", "fairshares", "harness", "protocols"):
        for path in sorted((PROJECT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            of_modules |= {f"{path.relative_to(PROJECT)}: {name}" for name in empty_by_default(tree)}
    return of_modules


@pytest.mark.parametrize(
    "source",
    [
        'class A:\n    piece: str = ""',
        'def a(*, piece: str = "") -> None: ...',
        'def a(b: int, piece: str = "") -> None: ...',
        'class A:\n    def a(self, piece: bytes = b"") -> None: ...',
    ],
)
def test_a_text_that_means_none_is_found(source: str) -> None:
    assert len([*empty_by_default(ast.parse(source))]) == 1


@pytest.mark.parametrize(
    "source", ["class A:\n    piece: str | None = None", "def a(b: int = 0) -> None: ..."]
)
def test_what_says_none_is_not_found(source: str) -> None:
    assert not [*empty_by_default(ast.parse(source))]


def test_an_empty_text_is_the_default_of_texts_alone() -> None:
    """An upload's task, a piece of noise and a chain were "" where there was none."""
    assert found() == OF_TEXTS.keys()


def test_the_reasons_are_of_files_that_there_are() -> None:
    assert all(Path(PROJECT, name.partition(":")[0]).is_file() for name in OF_TEXTS)
