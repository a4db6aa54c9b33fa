"""What MP-SPDZ's compiler knows of the machine that a program is compiled for.

It is in the compiler's options, and so in a program's hash. Other engines need no compiler.
"""

from __future__ import annotations

import sys


def is_for_a_prime() -> bool:
    """Return whether MP-SPDZ compiles for a given prime.

    [test: tests/protocols/test_programs.py, tests/programs/test_field_inputs.py]

    Returns:
        False if no program of MP-SPDZ is compiled.
    """
    compiler = sys.modules.get("Compiler.program")
    return compiler is not None and bool(compiler.Program.prog.prime)


def parties_that_mask(secret_integer) -> int:
    """Return how many parties put numbers of their own into masks.

    MP-SPDZ compiles for semi2k-party.x then, whose shares it splits. A stand-in for sint may say so itself.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
    Returns:
        The number of parties; 0 where masks are not used.
    """
    compiler = sys.modules.get("Compiler.program")
    if compiler is None:
        return secret_integer.parties_that_mask if hasattr(secret_integer, "parties_that_mask") else 0
    return compiler.Program.prog.use_split() if compiler.Program.prog.options.execute == "semi2k" else 0


def may_enter_no_bits() -> bool:
    """Return whether MP-SPDZ compiles for a machine in which a malicious party may enter what is no bit.

    Its compiler calls malicious-shamir-party.x so.
    """
    compiler = sys.modules.get("Compiler.program")
    return compiler is not None and compiler.Program.prog.options.execute == "mal-shamir"
