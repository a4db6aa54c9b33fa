"""What MP-SPDZ's compiler knows of the machine that a program is compiled for.

It is in the compiler's options, and so in a program's hash. Other engines need no compiler.
"""

from __future__ import annotations

import sys


def is_for_a_prime() -> bool:
    """Return whether MP-SPDZ compiles for a given prime.

    [test: tests/protocols/test_programs.py, tests/programs/test_field_inputs.py]
    """
    compiler = sys.modules.get("Compiler.program")
    return compiler is not None and bool(compiler.Program.prog.prime)


def may_enter_no_bits() -> bool:
    """Return whether MP-SPDZ compiles for a machine in which a malicious party may enter what is no bit.

    Its compiler calls malicious-shamir-party.x so.
    """
    compiler = sys.modules.get("Compiler.program")
    return compiler is not None and compiler.Program.prog.options.execute == "mal-shamir"
