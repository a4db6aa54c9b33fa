"""π_LAP as published: its program is what its distribution is computed from, statement for statement."""

import ast

from harness.engines.base import PROGRAMS
from protocols.spec import NO_INPUT, PI_LAP_PUBLISHED, PROTOCOLS

# It opens noise that protects next to nothing, so nothing else may ever be added to what it opens.
STATEMENTS = """
import math
from fractions import Fraction
from Compiler import mpc_math
_, form, samples, epsilon = program.args
samples = int(samples)
scale = round(2 ** 16 / Fraction(epsilon))
if form not in ('raw', 'rounded') or scale > 1000 * 2 ** 16:
    raise ValueError('form must be raw or rounded, and epsilon at least 1/1000')
sfix.set_precision(16, 31)
sfix.round_nearest = True
u = sum((sint.get_random_bit(size=samples) * 2 ** i for i in range(16))) - 2 ** 15
sign = 2 * (u >= 0) - 1
log = mpc_math.log_fx(sfix._new(2 ** 16 - 2 * sign * u), math.e)
noise = (-scale * sign * log.v).round(48, 16, nearest=True)
if form == 'rounded':
    noise = noise.round(32, 16, nearest=True)
check_point()
print_ln('OUT noise %s', noise.reveal())
"""


def test_the_program_is_the_one_that_was_judged() -> None:
    text = (PROGRAMS / f"{PI_LAP_PUBLISHED.name}.mpc").read_text(encoding="utf-8")
    assert ast.unparse(ast.parse(text)).strip() == STATEMENTS.strip()


def test_nobody_can_take_it_for_a_private_release() -> None:
    """It takes no input, declares nothing that a guarantee could be stated for, and runs on MP-SPDZ only."""
    assert PI_LAP_PUBLISHED.input_forms == {NO_INPUT.name: NO_INPUT}
    assert PI_LAP_PUBLISHED.release is None
    assert not PI_LAP_PUBLISHED.portable
    assert [spec.name for spec in PROTOCOLS.values() if spec.release is None] == [PI_LAP_PUBLISHED.name]
