"""Programs of one's own: any program of MP-SPDZ's, timed in any model; what it opens, it opens."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure.cell import Place, model_of
from benchmarks.measure.samples import Level
from benchmarks.suites import PROGRAM
from harness.engines.base import Job, Progress
from harness.engines.emulated_network.profiles import parse_network
from harness.engines.mpspdz.compiler import compile_options, compilers_estimate, counted
from harness.engines.mpspdz.discovery import Installation, find_installation
from harness.engines.registry import engine_of
from harness.inputs.synthetic import public_integers
from harness.pipeline import manifest as report
from protocols.spec import ProtocolSpec

_OUTPUT = re.compile(r"\bOUT ([A-Za-z_]\w*)")


class OwnPrograms(Place):
    """Measures programs at another place. Args: place: there; directory: of their texts."""

    def __init__(self, place: Place, directory: Path) -> None:
        self._place, self._directory = place, directory

    def about(self) -> dict[str, Any]:
        return self._place.about()

    def surroundings(self, cell: Mapping[str, Level]) -> dict[str, Any]:
        return self._place.surroundings(cell)

    def job_of(self, cell: Mapping[str, Level]) -> Job:
        """Return the job of a run: `inputs` public integers of each party, one after the other."""
        source, parties = self._directory / str(cell[PROGRAM]), model_of(cell).parties
        text = source.read_text(encoding="utf-8", errors="replace")
        outputs = tuple(dict.fromkeys(_OUTPUT.findall(text)))
        return Job(
            ProtocolSpec(source.stem, "a program of the user's", (), {}, outputs, ("whatever it opens",)),
            source,
            tuple(shlex.split(str(cell.get("arguments", "")))),
            (None,) * parties,
            given_bits=public_integers(parties, int(cell.get("inputs", 0))),
            compile_options=tuple(shlex.split(str(cell.get("compile_options", "")))),
        )

    def estimate(self, cell: Mapping[str, Level]) -> dict[str, int]:
        """Return what MP-SPDZ's compiler counts in the cell's program, by its words; nothing without it.

        Raises: CompileError.
        """
        found, model = find_installation(), model_of(cell)
        if not isinstance(found, Installation) or model.virtual_machine is None:
            return {}
        job = self.job_of(cell)
        return counted(compilers_estimate(job, found.home, compile_options(job, model)))

    def _unsupported(self, cell: Mapping[str, Level]) -> str | None:
        return self._place.unfit(cell) or engine_of(model_of(cell)).availability(model_of(cell))

    def _run(
        self, cell: Mapping[str, Level], timeout_s: float, out: Path, progress: Progress
    ) -> dict[str, Any]:
        started, model = time.monotonic(), model_of(cell)
        runner = self._place.hosts(cell) or engine_of(model)
        network = parse_network(str(cell.get("network", "none")))
        result = runner.run(self.job_of(cell), model, out, timeout_s, progress, network=network)
        return report.manifest("program", result, {}, {}, None, time.monotonic() - started, 0.0)
