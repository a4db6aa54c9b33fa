"""The rules on layout hold for the project, and each of them can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import layout


@pytest.mark.parametrize("rule", [layout.import_faults, layout.handler_faults, layout.text_faults])
def test_project_keeps_the_rule(rule: Callable[[Path], list[str]], project: Path) -> None:
    assert rule(project) == []


def test_project_was_found(project: Path) -> None:
    found = set(layout.modules(project))
    assert {
        "inv",
        "tasks",
        "harness.security_models",
        "protocols",
        "Programs.Source.pi_lap",
        "tests.conftest",
    } <= found


def write(root: Path, files: dict[str, str]) -> None:
    """Write a small project: the given files, and the package files that they need."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("harness/security_models.py", "import harness.pipeline.run", "imports go down only"),
        ("harness/security_models.py", "def f():\n    from harness import pipeline", "imports go down only"),
        ("harness/inputs/shares.py", "from .engines import base", "imports go down only"),
        ("harness/engines/parties/main.py", "from ..outputs import read", "imports go down only"),
        ("protocols/spec.py", "from harness.security_models import Model", "imports go down only"),
        ("protocols/noise/truncated.py", "import data.loanapp", "imports go down only"),
        ("harness/pipeline/run.py", "import tasks", "imports go down only"),
        ("benchmarks/scale.py", "from tests.conftest import PROJECT", "imports go down only"),
        ("protocols/circuits/coins.py", "import numpy", "compiler"),
        ("protocols/circuits/coins.py", "from protocols.spec import PI_LAP", "compiler"),
        ("protocols/__init__.py", "from protocols import budget", "compiler"),
        ("protocols/reference.py", "from protocols.circuits.coins import check", "oracle"),
        ("Programs/Source/pi_x.mpc", "from protocols.spec import PI_LAP", "a program"),
        ("Programs/Source/pi_x.mpc", "import numpy", "a program"),
        ("tests/programs/probe.mpc", "from tests.conftest import PROJECT", "a program"),
        ("harness/newcomer.py", "import math", "place it in LEVELS"),
        ("harness/security_models.py", "from harness.newcomer import x", "place it in LEVELS"),
        ("harness/cli/bootstrap.py", "import invoke", "before anything is installed"),
        (
            "harness/cli/bootstrap.py",
            "from harness.errors import FairSharesError",
            "before anything is installed",
        ),
        ("inv", "import rich", "before anything is installed"),
        (
            "harness/postprocessing/reweighing/formulas.py",
            "from fairlearn.metrics import selection_rate",
            "tests only",
        ),
    ],
)
def test_wrong_import_is_refused(file: str, text: str, fault: str, tmp_path: Path) -> None:
    empty = (
        "harness/pipeline/run.py",
        "harness/engines/base.py",
        "protocols/accounting/calibration.py",
        "tests/conftest.py",
    )
    write(tmp_path, {**dict.fromkeys(empty, ""), file: text})
    found = layout.import_faults(tmp_path)
    name = file.rpartition(".")[0].removesuffix("/__init__").replace("/", ".") or file
    assert found
    assert found[0].startswith(name)
    assert fault in found[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "harness/pipeline/run.py",
            "import numpy\nfrom harness.engines.base import Job\nfrom protocols.spec import PI_RW",
        ),
        ("harness/engines/mpspdz/engine.py", "from .parties import run\nfrom harness import models"),
        ("protocols/reference.py", "import numpy\nfrom protocols.spec import PI_LAP"),
        ("protocols/noise/truncated.py", "from protocols.circuits.coins import check"),
        ("protocols/circuits/noise.py", "from fractions import Fraction\nfrom .coins import check"),
        (
            "Programs/Source/pi_x.mpc",
            "from fractions import Fraction\nfrom protocols.circuits.noise import flip",
        ),
        ("Programs/Source/pi_y.mpc", "from Compiler import sorting"),
        ("tests/unit/test_x.py", "import fairlearn, tasks, harness.pipeline.run"),
        ("tasks.py", "from harness.cli.checks import run_checks"),
        ("inv", "import sys\nfrom harness.cli.bootstrap import main"),
    ],
)
def test_right_import_is_accepted(file: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, {file: text})
    assert layout.import_faults(tmp_path) == []


def test_circle_is_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "harness/inputs/rings.py": "import harness.security_models",
            "harness/security_models.py": "import harness.inputs.rings",
        },
    )
    (fault,) = layout.import_faults(tmp_path)
    assert fault.startswith("modules import each other")


def test_circle_through_a_function_is_accepted(tmp_path: Path) -> None:
    late = "def f():\n    import harness.security_models"
    write(
        tmp_path,
        {"harness/inputs/rings.py": late, "harness/security_models.py": "import harness.inputs.rings"},
    )
    assert layout.import_faults(tmp_path) == []


@pytest.mark.parametrize(
    "caught", ["except Exception:", "except:", "except (OSError, Exception):", "except Exception as error:"]
)
def test_catching_everything_is_refused(caught: str, tmp_path: Path) -> None:
    write(tmp_path, {"harness/security_models.py": f"try:\n    pass\n{caught}\n    pass\n"})
    assert layout.handler_faults(tmp_path) == ["harness.security_models:3 catches everything"]


@pytest.mark.parametrize("caught", ["except OSError:", "except (OSError, ValueError):"])
def test_catching_something_is_accepted(caught: str, tmp_path: Path) -> None:
    write(tmp_path, {"harness/security_models.py": f"try:\n    pass\n{caught}\n    pass\n"})
    assert layout.handler_faults(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("harness/long.py", "\n" * 401, "has 401 lines"),
        ("Programs/Source/long.mpc", "\n" * 401, "has 401 lines"),
        ("docs/where.md", "see /wo" + "rk/main", "path of one machine"),
        ("docs/where.md", "see /ho" + "me/somebody/x", "path of one machine"),
        ("requirements.lock", "--extra-index-ur" + "l file:///x", "package index"),
        (".ci/run", "pip install --find-lin" + "ks x", "package index"),
        ("docs/where.md", "https://pypi." + "org/simple", "package index"),
    ],
)
def test_unclean_text_is_refused(name: str, text: str, fault: str, tmp_path: Path) -> None:
    write(tmp_path, {name: text})
    (found,) = layout.text_faults(tmp_path)
    assert fault in found


def test_clean_text_is_accepted(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"harness/x.py": "\n" * 400, "docs/x.md": "~/MP-SPDZ or /opt/MP-SPDZ", "runs/x.md": "/wo" + "rk/x"},
    )
    assert layout.text_faults(tmp_path) == []
