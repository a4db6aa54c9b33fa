"""Reads `OUT` lines, by which a program hands its opened results to any engine."""

import re
from collections.abc import Sequence

from harness.errors import OutputError

# At most 20 digits: a damaged line does not become a huge integer.
_LINE = re.compile(
    r"OUT ([A-Za-z_][A-Za-z0-9_]*) (?:(-?\d{1,20})|\[(-?\d{1,20}(?:, -?\d{1,20})*)\])", re.ASCII
)
_LIMIT = 1 << 63


def parse_outputs(logs: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Read the `OUT <name> <integers>` lines of every party's log, in the order of `names`.

    Guarantees: every party printed exactly these names, once each and in any order, with the same integers,
    each in [-2^63, 2^63). Other lines are ignored. Without names anything may be printed.
    [test: tests/harness/engines/test_output_parser.py]

    Raises:
        OutputError: Lines break the guarantee. It tells names and parties, never a value.
    """
    if not logs:
        raise OutputError("No party printed anything; the run has no result.")
    if not names:
        return {}
    first = _party_outputs(logs[0], names, 0)
    for party, log in enumerate(logs):
        other = _party_outputs(log, names, party)
        differing = [name for name in names if other[name] != first[name]]
        if differing:
            raise OutputError(
                f"Parties 0 and {party} revealed different values for {', '.join(differing)}; a party is "
                "faulty or deviates, discard this run."
            )
    return first


def _party_outputs(log: Sequence[str], names: Sequence[str], party: int) -> dict[str, tuple[int, ...]]:
    outputs: dict[str, tuple[int, ...]] = {}
    for line in log:
        if line.startswith("OUT"):
            name, values = _parsed(line.rstrip(), party)
            if name not in names:
                raise OutputError(f"Party {party} printed OUT {name}, which the protocol does not declare.")
            if name in outputs:
                raise OutputError(f"Party {party} printed OUT {name} twice.")
            outputs[name] = values
    if missing := [name for name in names if name not in outputs]:
        raise OutputError(f"Party {party} did not print OUT {', '.join(missing)}; the run did not complete.")
    return {name: outputs[name] for name in names}


def _parsed(line: str, party: int) -> tuple[str, tuple[int, ...]]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise OutputError(f"Party {party} printed an OUT line that is not a name and integers.")
    values = tuple(map(int, (match[2] or match[3]).split(", ")))
    if not all(-_LIMIT <= value < _LIMIT for value in values):
        raise OutputError(f"Party {party} revealed a value outside [-2^63, 2^63) in OUT {match[1]}.")
    return match[1], values
