"""Runs programs of the portable subset with one MPyC party, in a process that serves many tests.

One party computes what three do, without connections; the interpreter cannot tell the difference.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairshares.harness.errors import FairSharesError
from fairshares.harness.inputs.rings import FIELD

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and what the party feeds it; `elements` are written as they are."""

    text: str
    arguments: tuple[str, ...] = ()
    elements: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    name: str = "case.mpc"


@dataclass(frozen=True)
class Outcome:
    """What a program printed, and the class and message of the error that ended it, if one did.

    Attributes: masked: how many integers were hidden by a random number that is not uniform in the field.
    """

    printed: str
    error: str | None
    message: str
    masked: int


class OneParty:
    """The process. Used as a context manager."""

    def __enter__(self) -> "OneParty":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.one_party"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, text: str, **rest: Sequence[int] | Sequence[str]) -> Outcome:
        """Run a program to its end or its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"text": text, **rest}) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))


def main() -> None:
    """Serve until the input ends."""
    sys.argv = ["one-party", "--no-log", "-M1", "-K", "40"]
    from mpyc.runtime import mpc

    from fairshares.harness.engines.mpyc.party import execute
    from fairshares.harness.engines.mpyc.party_runtime import PartyRuntime

    masks: list[int] = []
    _count_masks(mpc, masks)
    mpc.run(mpc.start())
    for line in sys.stdin:
        case = Case(**json.loads(line))
        masks.clear()
        printed, error, message = io.StringIO(), None, ""
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(printed):
            program = _lay_out(case, Path(directory, "data"))
            try:
                execute(program, ["case", *case.arguments], PartyRuntime(mpc, program.parent))
            except FairSharesError as refusal:
                error, message = type(refusal).__name__, str(refusal)
        print(json.dumps(asdict(Outcome(printed.getvalue(), error, message, sum(masks)))), flush=True)


def _count_masks(mpc: Any, masks: list[int]) -> None:
    """Have MPyC note how many numbers it draws below a bound; one of the field has none."""

    def counting(draw: Callable[..., Any]) -> Callable[..., Any]:
        def counted(kind: Any, n: int, bound: int | None = None) -> Any:
            masks.append(n if bound else 0)
            return draw(kind, n, bound)

        return counted

    mpc._randoms, mpc._np_randoms = counting(mpc._randoms), counting(mpc._np_randoms)


def _lay_out(case: Case, directory: Path) -> Path:
    directory.mkdir()
    if case.elements:
        raw = b"".join(value.to_bytes(FIELD.value_bytes, "little") for value in case.elements)
        (directory / "Input-Binary-P0-0").write_bytes(raw)
    (directory / "Input-P0-0").write_text("\n".join(map(str, case.integers)))
    program = directory / case.name
    program.write_text(case.text)
    return program


if __name__ == "__main__":
    main()
