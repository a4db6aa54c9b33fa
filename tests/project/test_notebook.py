"""The notebook of the tutorials runs from top to bottom, and shows what it says that it shows."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT

NOTEBOOK = PROJECT / "docs" / "tutorials" / "weights.ipynb"


def execute(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell as a notebook does; return what it prints, and its last expression's value, None if none."""
    tree, printed, value = ast.parse(code), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), value


def shown(value: Any) -> set[str]:
    """Return as what a notebook shows a value: HTML, where it can be, or a picture of axes."""
    if value is None:
        return set()
    if hasattr(value, "get_figure"):
        return {"image/png", "text/plain"}
    return {"text/plain"} | ({"text/html"} if hasattr(value, "_repr_html_") else set())


def test_the_notebook_runs_and_shows_what_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        printed, value = execute("".join(cell["source"]), names)
        streams = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        results = [set(output["data"]) for output in cell["outputs"] if "data" in output]
        assert bool(printed) == bool(streams), cell["source"]
        assert results == ([shown(value)] if value is not None else []), cell["source"]
    assert len(cells) > 5
