"""Feeds many mutated inputs to readers of foreign bytes: `python -m tests.fuzz NAME COUNT`.

It says how the inputs ended, and returns 1 if any ended otherwise than the target declares. Inputs that did
are kept in the directory that `--keep` names.
"""

import argparse
import secrets
import sys
from pathlib import Path

from tests.fuzz.mutate import fuzz, inputs, targets


def main() -> int:
    """Run one target, or all; return the exit code."""
    known = targets()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=str(__doc__).splitlines()[0])
    parser.add_argument("name", choices=[*sorted(known), "all"], help="of the target, or `all`")
    parser.add_argument("count", type=int, help="how many inputs")
    parser.add_argument("--seed", type=int, help="repeats an earlier run; default: random")
    parser.add_argument("--keep", type=Path, help="a directory for inputs that failed")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    failed = 0
    for name in sorted(known) if given.name == "all" else [given.name]:
        report = fuzz(known[name], inputs(known[name], given.count, seed))
        failed += report.failed
        print(f"{name}: {given.count} inputs, seed {seed}, {report.seconds:.1f} s in all")
        print(f"  slowest {report.slowest_cpu_s:.3f} s of processor time, peak {report.peak_bytes >> 20} MB")
        for kind, number in report.outcomes.most_common():
            print(f"  {number:9} {kind}")
        print(f"  {report.failed:9} otherwise, which is a failure")
        for number, (data, reason) in enumerate(report.failures):
            print(f"  {reason}: {data[:80]!r}")
            if given.keep is not None:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / f"{name}-{seed}-{number}").write_bytes(data)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
