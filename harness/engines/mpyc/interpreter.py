"""Executes a program's text, with the portable names bound to MPyC values."""

import builtins
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.engines.mpyc.machine import Machine
from harness.engines.mpyc.names import namespace, unsupported
from harness.errors import CompileError, DomainOverflow, UnsupportedFeature
from protocols import circuits


def execute(path: Path, arguments: Sequence[str], machine: Machine) -> None:
    """Run the program to its end; `arguments` begin with its name.

    Reveals: what the program reveals, to all parties.

    Raises UnsupportedFeature, DomainOverflow or CompileError, with file:line, or ShareError if the party's
    input does not fit the program.
    """
    try:
        names = namespace(machine, arguments)
        exec(builtins.compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
        machine.check_inputs_used()
    except (UnsupportedFeature, DomainOverflow) as error:
        raise type(error)(f"{_where(error, path)}: {error}") from error
    except (AttributeError, NameError, TypeError) as error:
        what = unsupported(str(error.name)) if isinstance(error, NameError) else error
        raise UnsupportedFeature(f"{_where(error, path)}: {what}") from error
    except SyntaxError as error:
        raise CompileError(f"{path.name}:{error.lineno}: {error.msg}.") from error
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        kind = type(error).__name__
        raise CompileError(f"{_where(error, path)}: the program ended with {kind}.") from error


def _where(error: BaseException, path: Path) -> str:
    ours = (path, *Path(circuits.__path__[0]).glob("*.py"))
    frames = traceback.extract_tb(error.__traceback__)
    steps = [frame for frame in frames if Path(frame.filename) in ours]
    return f"{Path(steps[-1].filename).name}:{steps[-1].lineno}" if steps else path.name
