"""Circuits read nothing from outside and open nothing, but for the masks and sums of clients' input."""

import ast
from pathlib import Path

import pytest

from harness.engines.base import PROJECT
from tests.protocols.test_programs import CIRCUITS, MODULES


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_read_nothing_from_outside(name: str) -> None:
    """No environment, no file, no randomness of their own: what they compute follows from their arguments."""
    tree = ast.parse((PROJECT / "protocols" / "circuits" / f"{name}.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert (
        modules
        <= {"__future__", "collections.abc", "dataclasses", "fractions", "functools", "math"} | MODULES
    )
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"open", "eval", "exec", "getattr", "globals", "__import__", "input"}


OPENING = {
    "reveal",
    "reveal_to",
    "reveal_list",
    "print_ln",
    "print_str",
    "binary_output",
    "write_to_file",
    "print",
}


OPENED_TO_CLIENTS = {"reveal", "write_shares_to_socket", "write_to_socket"}


def opened_by_a_circuit(source: str) -> set[str]:
    """Return what a circuit calls that could open a value, or hand it out: only programs may."""
    called = {node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
    return {name for name in names if name in OPENING or name.startswith(("reveal", "print", "write"))}


def test_circuits_open_nothing(project: Path) -> None:
    for path in (project / "protocols" / "circuits").glob("*.py"):
        allowed = OPENED_TO_CLIENTS if path.stem == "clients" else set()
        assert opened_by_a_circuit(path.read_text(encoding="utf-8")) == allowed, path.name
    assert opened_by_a_circuit("def f(x):\n    return [y.reveal() for y in x]") == {"reveal"}
    assert opened_by_a_circuit("def f(x, print_ln):\n    print_ln('%s', x)") == {"print_ln"}


# What clients' input does, word for word: random masks and offsets go to the client, sums that have an offset
# each are opened, no client is told a sum before the check, and nothing else leaves but what fronts compare.
STEPS_OF_CLIENTS = [
    "size = columns * clients",
    "words = DIGEST_WORDS * parts",
    "masks = secret.get_random(size=size)",
    "offsets = secret.get_random(size=checks(parts) * parts)",
    "secret.write_shares_to_socket(number, [masks])",
    "secret.write_shares_to_socket(number, [offsets])",
    "compare_at_fronts(secret, public, personal, number, check_point, parties, words)",
    "subsets = public.read_from_socket(number, size=size).bit_decompose(checks(parts))",
    "sums = secret.concat([part_sums(masks * chosen, parts) for chosen in subsets]) + offsets",
    "opened = sums.reveal()",
    "check_point()",
    "opened.write_to_socket(number, [opened])",
    "compare_at_fronts(secret, public, personal, number, check_point, parties, words)",
    "masked = public.read_from_socket(number, size=size)",
    "present = public.read_from_socket(number, size=size)",
    "values = (masked - masks) * present",
    "return values.concat([values.get_vector(j, clients, columns) for j in range(columns)])",
]
# Each party's own words, of what clients sent it, are input by it before any are opened.
STEPS_OF_FRONTS = [
    "own = public.read_from_socket(number, size=words)",
    "opened = secret.concat([secret(personal(i, own)) for i in range(parties)]).reveal()",
    "check_point()",
    "opened.write_to_socket(number, [opened])",
]


def test_clients_are_sent_their_masks_and_checked_sums_only(project: Path) -> None:
    tree = ast.parse((project / "protocols" / "circuits" / "clients.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, steps in (("columns_of_clients", STEPS_OF_CLIENTS), ("compare_at_fronts", STEPS_OF_FRONTS)):
        own = functions.pop(name)
        assert [ast.unparse(step) for step in own.body[1:]] == steps
    assert all(opened_by_a_circuit(ast.unparse(other)) == set() for other in functions.values())
