"""No function is made in a function for later use: what one step leaves to another one is a value of a type.

A function that was packed into a value, returned or kept can hold what is bound only later. No reader sees
from the value's type what the function needs, or when it is called. The search covers all that users install:
nested functions, lambdas, calls of `partial`, and classes that a function makes, whose methods hold its
variables. A function may be given to a call that is done with it when it returns. Those of ours that take one
are read here, too: they only call it, or give it to such a call.

A bound method is a value of a type already, and may be kept. So may a listener, whose type stands in
`docs/explanation/architecture.md`: `Progress` in `RunContext` and `Conditions` is told the names of steps as
they begin, and `Say` sentences. A listener returns nothing, so no step depends on what it holds.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PACKAGES = ("fairshares", "harness", "protocols")
# What calls a function that it is given before it returns, by the last part of its name: Python's own,
PYTHONS = {
    "sorted", "min", "max", "sort", "bisect", "bisect_left",
    "map", "filter", "takewhile",  # whose values are taken where they are made
}  # fmt: skip
# and ours, each with one of the parameters that may be a function.
OURS = {
    "at_once": "function",  # asks all hosts at the same time, and returns their answers
    "_everywhere": "step",  # the same for a client's connections
    "_fault": "check",  # says why a check fails
    "_apply": "operation",  # applies an operator to the values of a circuit
    "_maximise": "function",
    "tell": "fields",  # makes a command's JSON only if it is asked for
    "within": "act",  # a call of a store's method within a time
    "share": "read",  # makes what a party shares, as it shares it
    "read_line": "longest",
    "connected": "is_awaited",
    "share_and_add_up": "progress",
    "_between": "good",  # reads a number
    "least_value": "function",  # looks for a number
    "_prefixes": "combine", "table": "count",  # combine secret values
}  # fmt: skip
AT_ONCE = PYTHONS | OURS.keys()
RUNS_IT = {"ContextThread"}  # for as long as the function takes

INTERFACE = "MP-SPDZ's language, MPyC, asyncio, invoke or Python takes functions here"
READER = "a decorator with an argument, or a place of which mypy knows no type, in one line"
CIRCUIT = "a circuit's text is in the hash of programs, which stays while what they compute does"
EXCEPTIONS = {
    ("harness/cli/bootstrap.py", "_make_alone"): INTERFACE,
    ("harness/cli/command_line.py", "__init__"): INTERFACE,
    ("harness/cli/terminal.py", "ending_well"): INTERFACE,
    ("harness/engines/mpyc/exchange.py", "_coroutine"): INTERFACE,
    ("harness/engines/mpyc/party_runtime.py", "install_fast_splitting"): INTERFACE,
    ("harness/engines/mpyc/names.py", "_for_range"): INTERFACE,
    ("harness/engines/mpyc/party.py", "listen_on_loopback"): INTERFACE,
    ("harness/forecast/operation_counts.py", "_in_turn"): INTERFACE,
    ("harness/online/gateway.py", "_secure"): INTERFACE,
    ("harness/request/fields.py", "several"): READER,
    ("harness/request/readers.py", "in_module"): READER,
    ("protocols/circuits/counts.py", "within"): CIRCUIT,
    ("protocols/circuits/literal.py", "instances"): INTERFACE,
    ("protocols/circuits/slots.py", "_read_in_a_loop"): INTERFACE,
    ("protocols/circuits/sorting.py", "_"): INTERFACE,
    ("protocols/circuits/sorting.py", "_compare_and_shuffle"): INTERFACE,
    ("protocols/circuits/sorting.py", "_rotate"): INTERFACE,
    ("protocols/circuits/sorting.py", "_shuffle"): INTERFACE,
    ("protocols/circuits/sorting.py", "_sort"): INTERFACE,
    ("protocols/circuits/sorting.py", "_transpose"): INTERFACE,
    ("protocols/circuits/sorting.py", "_unshuffle"): INTERFACE,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A module's tree, with the parent of each node."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST]

    @classmethod
    def of(cls, text: str) -> "Source":
        tree = ast.parse(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        return cls(tree, parents)

    def function_around(self, node: ast.AST) -> Function | None:
        """Return the function in whose body a node is; defaults and decorators are outside of theirs."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if isinstance(parent, Function) and child in parent.body:
                return parent
            child, parent = parent, self.parents.get(parent)
        return None

    def is_kept(self, node: ast.AST) -> bool:
        """Whether a function is there for later where this expression has it: returned, stored or packed."""
        parent = self.parents[node]
        if isinstance(parent, ast.keyword):
            parent = self.parents[parent]
        if isinstance(parent, ast.Call):
            if parent.func is node:
                return False
            return ast.unparse(parent.func).rpartition(".")[2] not in AT_ONCE | RUNS_IT
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return self._is_name_kept(parent.targets[0].id, self.function_around(node))
        return True

    def _is_name_kept(self, name: str, function: Function | None) -> bool:
        """Whether a function's local variable, which holds a function, is there for later."""
        if function is None:
            return True
        return any(
            self.is_kept(used)
            for used in ast.walk(function)
            if isinstance(used, ast.Name) and used.id == name and isinstance(used.ctx, ast.Load)
        )

    def kept(self) -> Iterator[str]:
        """Yield the names of functions in which one is made for later use."""
        for node in ast.walk(self.tree):
            around = self.function_around(node)
            if around is None:
                continue
            if isinstance(node, ast.ClassDef):
                yield around.name
            elif isinstance(node, Function) and isinstance(self.parents[node], ast.ClassDef):
                continue  # a method, found by its class
            elif isinstance(node, Function):
                is_decorated = bool(node.decorator_list)
                if is_decorated or self._is_name_kept(node.name, around):
                    yield around.name
            elif is_function_value(node) and self.is_kept(node):
                yield around.name

    def keepers(self) -> Iterator[tuple[str, bool]]:
        """Yield each function that `OURS` names, and whether it keeps the function that it is given."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function) and node.name in OURS:
                names = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
                if OURS[node.name] in names:
                    yield node.name, self._is_name_kept(OURS[node.name], node)


def is_function_value(node: ast.AST) -> bool:
    """Whether an expression makes a function."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] == "partial"
    return isinstance(node, ast.Lambda)


def places(root: Path) -> set[tuple[str, str]]:
    """Return the files of what users install, and the functions in these, in which one is made for later."""
    found = set[tuple[str, str]]()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            found |= {(name, function) for function in Source.of(path.read_text(encoding="utf-8")).kept()}
    return found


def types_of_functions(text: str) -> set[str]:
    """Return the names that a module gives to types of functions."""
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable["):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_the_page_lists_what_a_run_calls_above_it() -> None:
    """A function that is passed down, in a package that runs go through, has a type that the page names."""
    of_runs = (
        "pipeline",
        "training",
        "privacy",
        "releases",
        "engines/execution.py",
        "online",
        "uploads",
        "inputs",
        "system",
    )
    found = set[str]()
    for name in of_runs:
        place = PROJECT / "harness" / name
        assert place.exists(), name
        for path in [place] if place.is_file() else place.rglob("*.py"):
            found |= types_of_functions(path.read_text(encoding="utf-8"))
    page = (PROJECT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("values that go up have these types:")[2].partition("\n\nNo step")[0]
    listed = set(re.findall(r"`(\w+)`", table))
    with_methods = {"Charged", "CountableUploads", "EarlierRuns", "ChargeRules", "Clients"}
    assert listed - found == with_methods
    assert found - listed == set()


def test_no_function_is_made_for_later_use() -> None:
    found = places(PROJECT)
    assert {name.partition("/")[0] for name, _ in found} == {"harness", "protocols"}
    assert found - EXCEPTIONS.keys() == set(), "Make it a value of a type, with a method."
    assert EXCEPTIONS.keys() - found == set(), "It is an exception no longer."


def test_a_function_that_is_given_one_is_done_with_it_when_it_returns() -> None:
    found: dict[str, bool] = {}
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
            for name, keeps in Source.of(path.read_text(encoding="utf-8")).keepers():
                found[name] = keeps or found.get(name, False)
    assert found == dict.fromkeys(OURS, False)
    kept = "class A:\n    def share(self, read):\n        self.read = read"
    assert [*Source.of(kept).keepers()] == [("share", True)]


KEPT = {
    "returned": "def f(client):\n    return lambda: client.opened()",
    "returned by name": "def f(x):\n    def opened(opener):\n        return x\n    return opened",
    "packed": "def f(executor):\n    return Pool(lambda envelopes: executor.submit(envelopes), 2)",
    "packed by name": "def f(self):\n    def ask(state):\n        self.ask(state)\n    return Account(ask)",
    "given on": "def f(chosen, clients):\n    run(chosen=lambda cap: chosen(cap, clients))",
    "bound first": "def f(a):\n    read = partial(open, a)\n    return File(read)",
    "in a method's attribute": "class A:\n    def f(self, x):\n        self.end = lambda: x",
    "decorated": "def f(data):\n    @cache\n    def scores(seed):\n        return data\n    scores(1)",
    "yielded": "def f(x):\n    yield partial(audit, x)",
    "of a class": "def f(x):\n    class A:\n        def g(self):\n            return x\n    return A",
    "a key that is kept": "def f(x):\n    return Table(key=lambda row: x[row])",
    "in a reader": "def f(x):\n    return NumberReader('a number', lambda y: y < x, int)",
    "in a dict": "def f(x):\n    for name in x:\n        every = {name: lambda: x}\n    return every",
}
FINE = {
    "a key": "def f(x):\n    return sorted(x, key=lambda y: -y)",
    "called here": "def f(x):\n    def g(y):\n        return x + y\n    return g(1)",
    "at once": "def f(hosts, message):\n    return at_once(lambda host: host.ask(message), hosts)",
    "a thread's": "def f(shown):\n  def keep():\n    shown.tell()\n  ContextThread(target=keep).start()",
    "bound, then at once": "def f(a):\n    read = partial(open, a)\n    return within(1.0, read)",
    "of a module": "READ = partial(open, 'x')\nKIND = OneOf(lambda: ('a', 'b'))",
    "a default": "def f(x=lambda: 1):\n    return x()",
    "a method": "def f(self, x):\n    return Account(self._check)",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_is_for_later_is_found(text: str) -> None:
    assert [*Source.of(text).kept()] == ["f"]


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_what_is_done_when_a_call_returns_is_fine(text: str) -> None:
    assert [*Source.of(text).kept()] == []
