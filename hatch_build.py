"""Moves `harness`, `protocols` and the programs into `fairshares`, for the wheel."""

import re
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NAMES = re.compile(r'(^\s*(?:from|import) |")(?=(?:harness|protocols)(?:\.\w| import ))', re.MULTILINE)


class MovingHook(BuildHookInterface[Any]):
    """Has the wheel's imports, and modules in quotes, begin with `fairshares.`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the wheel's files; an "editable" version moves nothing."""
        self._scratch = TemporaryDirectory()
        if version == "editable":
            return
        root, package = Path(self.root), Path(self._scratch.name, "fairshares")
        copytree(root / "fairshares", package, ignore=ignore_patterns("__pycache__"))
        for folder in ("harness", "protocols", "Programs/Source"):
            copytree(root / folder, package / folder, ignore=ignore_patterns("__pycache__"))
        for file in package.rglob("*.*"):
            file.write_text(_NAMES.sub(r"\1fairshares.", file.read_text("utf-8")), "utf-8")
        build_data["force_include"][str(package)] = "fairshares"

    def finalize(self, *_: str | dict[str, Any]) -> None:
        """Remove what was written."""
        self._scratch.cleanup()
