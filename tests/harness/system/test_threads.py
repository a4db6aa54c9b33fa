"""Threads and workers write messages for the surface of whoever began them; no other threads are begun."""

import ast
from pathlib import Path

import pytest

from fairshares.harness.errors import PYTHON, SHELL, Surface, named, naming
from fairshares.harness.system.threads import ContextPool, ContextThread
from fairshares.harness.system.worker_pools import worker_pool

NAMED = {"shell": (SHELL, "--cap 3"), "python": (PYTHON, "cap=3")}
THREADS = {"Thread", "Timer", "ThreadPool", "ThreadPoolExecutor"}
BEGIN_THREADS = {
    "harness/system/threads.py",
    "harness/cli/project_checks.py",  # imports no more before an environment is there; a command's checks
}


@pytest.mark.parametrize(("surface", "written"), NAMED.values(), ids=NAMED)
def test_a_thread_writes_for_the_surface_of_who_began_it(surface: Surface, written: str) -> None:
    said: list[str] = []
    with naming(surface):
        thread = ContextThread(target=lambda: said.append(named("cap", 3)))
        thread.start()
        thread.join()
    assert said == [written]


@pytest.mark.parametrize(("surface", "written"), NAMED.values(), ids=NAMED)
def test_calls_in_a_pool_write_for_the_surface_of_who_asks(surface: Surface, written: str) -> None:
    """Also where a thread of the pool worked for somebody else before."""
    with ContextPool(1) as pool:
        for before, said in NAMED.values():
            with naming(before):
                assert pool.submit(named, "cap", 3).result() == said
        with naming(surface):
            assert list(pool.map(named, ["cap"] * 3, [3] * 3)) == [written] * 3


@pytest.mark.parametrize(("surface", "written"), NAMED.values(), ids=NAMED)
def test_workers_write_for_the_surface_of_who_began_them(surface: Surface, written: str) -> None:
    with naming(surface), worker_pool(1) as workers:
        assert workers.submit(named, "cap", 3).result() == written


def begun(source: str) -> set[str]:
    """Return the kinds of threads that a module names, by imports or as attributes."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found & THREADS


def test_no_other_module_begins_threads_without_a_context(project: Path) -> None:
    found = set[str]()
    for top in ("harness", "fairshares", "protocols"):
        for path in (project / top).rglob("*.py"):
            if begun(path.read_text(encoding="utf-8")):
                found.add(path.relative_to(project).as_posix())
    assert found == BEGIN_THREADS, "Begin a ContextThread, or ask a ContextPool."


def test_what_begins_threads_is_found() -> None:
    assert begun("import threading\nthreading.Thread(target=print)") == {"Thread"}
    assert begun("from concurrent.futures import Future, ThreadPoolExecutor") == {"ThreadPoolExecutor"}
    assert begun("import threading\nthreading.Lock()") == set()
