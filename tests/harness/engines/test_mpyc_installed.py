"""Only the MPyC whose handling of messages is known is used."""

import ast
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairshares.harness.engines.mpyc import installed
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.mpyc.party import _load_mpyc
from fairshares.harness.engines.parties.config import Embedded, PartyConfig
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.security_models import get_model

ENGINE = Embedded(program="none", arguments=(), threshold=1, security_bits=61)
FIX = r"run `pip install --force-reinstall mpyc==0\.11`, or use a model of MP-SPDZ\."


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy of MPyC that is found in place of the installed one."""
    found = find_spec("mpyc")
    assert found is not None and found.submodule_search_locations
    shutil.copytree(found.submodule_search_locations[0], tmp_path / "mpyc")
    for name in [name for name in sys.modules if name.partition(".")[0] == "mpyc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    installed.fault_of_installation.cache_clear()
    yield tmp_path / "mpyc"
    installed.fault_of_installation.cache_clear()


def test_the_known_release_is_used(package: Path) -> None:
    assert installed.fault_of_installation() is None
    assert EmbeddedEngine().availability(get_model("mpyc")) is None


@pytest.mark.parametrize("name", ["runtime.py", "asyncoro.py"])
def test_a_changed_mpyc_is_refused_before_anything_is_shared_and_by_each_party(
    name: str, package: Path
) -> None:
    with (package / name).open("a") as text:
        text.write("\n")
    reason = EmbeddedEngine().availability(get_model("mpyc"))
    assert reason is not None and reason.startswith("The installed MPyC 0.11 is not as it was released: ")
    with pytest.raises(UnsupportedError, match=FIX):
        _load_mpyc(PartyConfig(party=0, common_names=("P0",), engine=ENGINE), ENGINE)


def test_another_version_is_refused_by_its_number(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "runtime.py").unlink()
    monkeypatch.setattr(installed, "version", lambda name: "0.12")
    reason = str(installed.fault_of_installation())
    assert reason.startswith("MPyC 0.12 is installed, and how it reads messages is not known; run ")


def test_no_mpyc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed.fault_of_installation.cache_clear()
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert str(installed.fault_of_installation()).startswith("MPyC is not installed; run ")
    installed.fault_of_installation.cache_clear()


# Functions of the known release that send or receive; `exchange` and `connection` stand in place of all.
REPLACED = {"transfer", "_distribute", "output", "_reshare"}
CARRYING = {"_send_message", "_receive_message"}


def uses(tree: ast.AST, names: set[str]) -> set[str]:
    """Return the functions that use one of these names."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            inside |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            if inside & names:
                found.add(function.name)
    return found


def test_all_functions_that_send_receive_or_pickle_are_replaced() -> None:
    found = find_spec("mpyc")
    assert found is not None and found.submodule_search_locations
    package = Path(found.submodule_search_locations[0])
    for path in package.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not imported & {"marshal", "shelve", "dill", "cloudpickle"}
        assert ("pickle" in imported) == (path.name == "runtime.py")
        assert uses(tree, CARRYING | {"pickle"}) == (REPLACED if path.name == "runtime.py" else set())
