"""Reads the project's source and says where it breaks the rules on layout; imports none of it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# From the ground up. A module imports from its own level and those below, never in a circle; one entry
# covers what is inside it, unless that has an entry of its own. Each module of `harness` has to have one.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("protocols.circuits",),
    ("protocols",),
    (
        *(
            "harness",
            "harness.errors",
            "harness.inputs.rings",
            "harness.security_models",
            "protocols.accounting.rounding",
        ),
        *(
            "harness.system.signals",
            "harness.system.files",
            "harness.cli.app",
            "harness.engines.network.profiles",
            "harness.views.palette",
        ),
    ),
    (
        *(
            "harness.cli.options",
            "harness.inputs.contribution_bounds",
            "harness.inputs.record_schema",
            "harness.inputs.tables",
            "harness.inputs.records",
        ),
        *(
            "harness.inputs.encoding",
            "harness.inputs.shares",
            "harness.clients",
        ),
        *("harness.inputs.aggregation", "harness.inputs.neighboring"),
    ),
    (
        "harness.privacy.ledger.populations",
        "harness.privacy.ledger.database",
        "harness.privacy.ledger.entries",
        "harness.privacy.ledger.charge",
        "harness.privacy.ledger.composition",
    ),
    ("harness.engines",),
    (
        "harness.pipeline.local_clients",
        "harness.pipeline.party_inputs",
        "harness.postprocessing.noisy_counts",
        "harness.postprocessing.reweighing.formulas",
        "harness.postprocessing.reweighing.intervals",
        "harness.postprocessing.reweighing.revealed",
        "harness.evaluation.metrics",
        "harness.evaluation.splits",
        "harness.postprocessing.curves",
        "harness.postprocessing.thresholds.geometry",
        "harness.postprocessing.curve_intervals",
        "harness.evaluation.before_after",
        "harness.views.plots",
        "harness.postprocessing.thresholds.predictor",
        "harness.system.result_files",
        "harness.postprocessing.thresholds.rules",
        "harness.postprocessing.thresholds.choose",
        "harness.postprocessing.thresholds.search",
        "harness.postprocessing.reweighing.sample_weight",
        "harness.engines.registry",
    ),
    (
        "harness.privacy.audit.samplers",
        "harness.privacy.audit.local",
        "harness.privacy.audit.plot",
        "harness.privacy.audit.reference",
        "harness.privacy.audit.releases",
        "harness.pipeline.noise_samples",
        "harness.pipeline.run",
        "harness.planning",
        "harness.pipeline.manifest",
        "harness.releases.score_curves",
        "harness.releases.confusion",
        "harness.pipeline.capped_run",
        "harness.pipeline.thresholds_again",
        "harness.releases.contribution_cap",
        "harness.releases.counts",
        "harness.releases.gaps",
        "harness.hosts",
        "harness.pipeline.terms",
        "harness.releases.weights",
        "data",
    ),
    (
        "harness.cli.terminal",
        "harness.views.html",
        "harness.views.quickstart_report",
        "harness.views.quickstart",
        "harness.cli.commands",
        "harness.cli.commands.hosts_tasks",
        "harness.cli.quickstart",
        "harness.views.weights",
        "harness.views.cap",
        "harness.views.counts",
        "harness.views.gaps",
        "harness.views.hosts",
        "harness.views.plan",
        "harness.views.thresholds",
        "harness.cli.tasking",
    ),
    ("tasks", "benchmarks", "examples"),
    ("tests",),
)
# Run before or beside everything else: the standard library only.
ALONE = ("harness.cli.bootstrap", "harness.cli.checks", "inv")
# Imported by MP-SPDZ's compiler, possibly under a Python without our packages.
COMPILED = ("protocols", "protocols.circuits", "protocols.circuits.*")
IN_TESTS_ONLY = ("aif360", "fairlearn", "hypothesis", "pytest")
MP_SPDZ = "Compiler"

MAX_LINES = 400
SOURCE = (".py", ".mpc")
TEXT = (*SOURCE, ".md", ".toml", ".lock", ".txt", ".json", ".csv", ".yml", ".yaml", ".sh", ".cfg", "")
# Written so that this file does not contain what it looks for.
MACHINE_PATH = re.compile(r"/(?:wor[k]|roo[t]|Users|home)/\w|/op[t]/(?:pypi|wheels)")
INDEX = re.compile(r"pypi[.]org|pythonhosted[.]org|(?:extra-)?index-ur[l][ =]|--find-link[s]")


@dataclass(frozen=True)
class Module:
    """One file of the project's source, by its dotted name; a program's is `Programs.Source.<name>`."""

    name: str
    path: Path

    @property
    def is_program(self) -> bool:
        return self.path.suffix == ".mpc"

    @property
    def package(self) -> list[str]:
        parts = self.name.split(".")
        return parts if self.path.name == "__init__.py" else parts[:-1]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), filename=str(self.path))


def files(root: Path) -> Iterator[Path]:
    """Yield the project's own text files: no results, no caches, nothing of git's."""
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") and path.name not in (".ci", ".gitignore"):
            continue
        if path.is_dir() and path.name not in ("runs", "__pycache__") and not path.name.endswith(".egg-info"):
            yield from files(path)
        elif path.is_file() and path.suffix in TEXT:
            yield path


def modules(root: Path) -> dict[str, Module]:
    """Return all Python modules and programs below the root, by dotted name."""
    found = {}
    for path in files(root):
        if path.suffix in SOURCE or path.name == "inv":
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if path.name == "__init__.py" else parts)
            found[name] = Module(name, path)
    return found


def imports(module: Module, known: dict[str, Module], *, at_once: bool = False) -> list[str]:
    """Return the dotted names of the modules that a file imports, relative ones resolved.

    Args: at_once: only what is imported as soon as the file is, not what its functions import.
    """
    return sorted(set(_imports(module, known, at_once)))


def _imports(module: Module, known: dict[str, Module], at_once: bool) -> Iterator[str]:
    for node in _outside_functions(module.tree) if at_once else ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.package
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield inner if inner in known else origin


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _outside_functions(child)


def matches(name: str, entries: tuple[str, ...]) -> bool:
    """Return whether one of the entries is the name, or a package (`p.*`) around it."""
    return any(name == entry or (entry.endswith(".*") and name.startswith(entry[:-1])) for entry in entries)


def level(name: str) -> int | None:
    """Return a module's level, lowest 0, None if nobody has placed it."""
    if name.startswith("Programs."):
        return 1
    while name:
        for height, entries in enumerate(LEVELS):
            if name in entries:
                return height
        name = name.rpartition(".")[0]
        if name == "harness":  # holds modules of many levels, so it places none
            return None
    return None


def import_faults(root: Path) -> list[str]:
    """Return a sentence for every import that the rules do not allow, and every module without a place."""
    known = modules(root)
    ours = {name.partition(".")[0] for name in known} | {"harness", "protocols", "data", "tasks", "tests"}
    faults = []
    graph = {}
    for module in known.values():
        graph[module.name] = set(imports(module, known, at_once=True)) & set(known)
        if level(module.name) is None and module.name not in ALONE:
            faults.append(f"{module.name} has no level; place it in LEVELS")
        for target in imports(module, known):
            reason = _refusal(module, target, target.partition(".")[0] in ours)
            if reason:
                faults.append(f"{module.name} imports {target}: {reason}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        faults.append(f"modules import each other: {' -> '.join(error.args[1])}")
    return faults


def _refusal(module: Module, target: str, ours: bool) -> str | None:
    standard = target.partition(".")[0] in sys.stdlib_module_names
    if module.is_program:
        circuits = matches(target, ("protocols.circuits", "protocols.circuits.*"))
        allowed = standard or circuits or target.partition(".")[0] == MP_SPDZ
        return None if allowed else "a program imports protocols.circuits only"
    if matches(module.name, COMPILED):
        circuits = matches(target, ("protocols.circuits", "protocols.circuits.*"))
        return None if standard or circuits else "MP-SPDZ's compiler must be able to import this"
    if module.name in ALONE:
        allowed = standard or (module.name == "inv" and target in ALONE)
        return None if allowed else "this runs before anything is installed"
    if module.name == "protocols.reference" and matches(
        target, ("protocols.circuits", "protocols.circuits.*")
    ):
        return "an oracle must not know the circuits that it judges"
    if not ours:
        in_tests = module.name.partition(".")[0] == "tests"
        return "tests only" if target.partition(".")[0] in IN_TESTS_ONLY and not in_tests else None
    own, other = level(module.name), 0 if target in ALONE else level(target)
    if own is None:
        return None  # reported as a module without a place
    if other is None:
        return "it has no level; place it in LEVELS"
    return "imports go down only" if other > own else None


def handler_faults(root: Path) -> list[str]:
    """Return where an exception is caught that says nothing about what went wrong."""
    return [
        f"{module.name}:{node.lineno} catches everything"
        for module in modules(root).values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type)
    ]


def _catches_everything(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_catches_everything(one) for one in caught.elts)
    return caught is None or (isinstance(caught, ast.Name) and caught.id == "Exception")


def text_faults(root: Path) -> list[str]:
    """Return files that are too long, and lines that name one machine's paths or a package index."""
    faults = []
    for path in files(root):
        lines = path.read_text(encoding="utf-8").splitlines()
        where = path.relative_to(root)
        if path.suffix in SOURCE and len(lines) > MAX_LINES:
            faults.append(f"{where} has {len(lines)} lines, more than {MAX_LINES}")
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line):
                faults.append(f"{where}:{number} names a path of one machine")
            if INDEX.search(line):
                faults.append(f"{where}:{number} names a package index")
    return faults
