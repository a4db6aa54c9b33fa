"""The portable subset: what its names do, and that all else is refused by name, file and line."""

from collections.abc import Iterator

import pytest

from fairshares.harness.engines.mpyc import names
from fairshares.harness.inputs.rings import FIELD
from tests.support.one_party import PROJECT, OneParty

BEFORE = """\
x, y, s = sint([1, 2, 3, 4]), sint([5, 6, 7, 8]), sint(9)
c, k = cint([1, 2, 3, 4]), cint(3)
bit, other = sbitvec.get_type(2).get_input_from(0, size=4).v
single = sbitvec.get_type(1).get_input_from(0).v[0]
"""
BITS = (0, 1, 2, 3, 1)  # four lanes of (bit, other), and `single`


@pytest.fixture(scope="module")
def party() -> Iterator[OneParty]:
    with OneParty() as process:
        yield process


def test_table_names_all_that_there_is_and_no_more() -> None:
    offered = {
        f"{kind.__name__}.{attribute}"
        for kind in (names.Secret, names.OpenedVector, names.BitVector, names.Bits, names.Program)
        for parent in kind.__mro__[:-1]
        for attribute in vars(parent)
        if not attribute.startswith("_")
    }
    assert offered | {"program.args", "sbitvec.v"} == {entry for entry in names.PORTABLE if "." in entry}


def test_table_names_all_that_a_program_starts_with(party: OneParty) -> None:
    roots = {entry.partition(".")[0] for entry in names.PORTABLE if entry[0].isalpha()} - {"len"}
    outcome = party.run("print_ln('%s', ' '.join(sorted(set(globals()) - {'__builtins__'})))")
    assert outcome.printed.split() == sorted(roots)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("print_ln('%s', s.reveal())", "9"),
        ("print_ln('%s', x.get_vector(1, 1).reveal())", "2"),
        ("print_ln('%s', x.reveal())", "[1, 2, 3, 4]"),
        ("print_ln('%s and %s%s', -k, 5, ' %d 100%')", "-3 and 5 %d 100%"),
        ("print_ln()", ""),
        ("print_ln('%s', x[-1].reveal().reveal())", "4"),
        ("print_ln('%s', sum(lane for lane in c))", "10"),
        ("print_ln('%s', c * 0 + x * 0)", "0"),
        ("print_ln('%s', (x + 1 + 0).reveal())", "[2, 3, 4, 5]"),
        ("print_ln('%s', [len(x), len(s), len(c[0])] == [4, 1, 1])", "True"),
        ("print_ln('%s', (k - c) * 2 - 1)", "[3, 1, -1, -3]"),
        ("print_ln('%s', 5 - c)", "[4, 3, 2, 1]"),
        ("print_ln('%s', (c == s).reveal())", "[0, 0, 0, 0]"),
        ("print_ln('%s', (k <= x).reveal())", "[0, 0, 1, 1]"),
        ("print_ln('%s', ((x < 3) + (3 > x) * 2).reveal())", "[3, 3, 0, 0]"),
        ("print_ln('%s', sint.dot_product(s, s).reveal())", "81"),
        ("print_ln('%s', sint.dot_product((x, y), (y, x)).reveal())", "[10, 24, 42, 64]"),
        ("print_ln('%s', sint(c * x).reveal())", "[1, 4, 9, 16]"),
        ("print_ln('%s', sint(bit).reveal())", "[0, 1, 0, 1]"),
        ("print_ln('%s', sint(other).reveal())", "[0, 0, 1, 1]"),
        ("print_ln('%s', sint(bit ^ other).reveal())", "[0, 1, 1, 0]"),
        ("print_ln('%s', sint(~(bit & other)).reveal())", "[1, 1, 1, 0]"),
        ("print_ln('%s', sint(single).reveal())", "1"),
        ("print_ln('%s', sint([-2**63, 2**63 - 1]).reveal())", "[-9223372036854775808, 9223372036854775807]"),
        ("print_ln('%s', (sint([2**62, -2**62]) > sint([2**62 - 1, 1 - 2**62])).reveal())", "[1, 0]"),
        ("for i in range(2):\n    s = s * s\nprint_ln('%s', s.reveal())", "6561"),
        ("def double(v):\n    return v + v\nprint_ln('%s', double(k))", "6"),
        ("@for_range(2)\ndef _(_):\n    print_ln('%s', (s + 1).reveal())", "10\n10"),
    ],
)
def test_opens(party: OneParty, line: str, printed: str) -> None:
    outcome = party.run(BEFORE + line, integers=BITS)
    assert (outcome.error, outcome.message, outcome.printed) == (None, "", printed + "\n")


@pytest.mark.parametrize(
    ("line", "names_it"),
    [
        # Names that only MP-SPDZ has.
        ("@for_range_opt(4)\ndef _(i): pass", "for_range_opt"),
        ("@for_range(4)\ndef _(i):\n    sint(i)", "from _Turn"),
        ("@for_range(0)\ndef _(i): pass", "size of a vector"),
        ("@for_range(k)\ndef _(i): pass", "size of a vector"),
        ("@if_(k)\ndef _(): pass", "if_"),
        ("@while_do(lambda: k)\ndef _(): pass", "while_do"),
        ("Array(4, sint)", "Array"),
        ("MemValue(s)", "MemValue"),
        ("sfix(1)", "sfix"),
        ("regint(1)", "regint"),
        ("sbits.get_type(4)", "sbits"),
        ("x.sort()", "sint.sort"),
        ("sint.Matrix(2, 2)", "sint.Matrix"),
        ("sint.get_random_int(8)", "sint.get_random_int"),
        ("c.if_else(1, 2)", "cint.if_else"),
        ("bit.reveal()", "sbits.reveal"),
        ("sbitvec.from_vec([bit])", "sbitvec.from_vec"),
        ("sbitvec.get_type(4).get_input_from(0, size=2).elements()", "sbitvec.elements"),
        ("sbitvec.get_input_from(0)", "sbitvec.get_input_from without get_type"),
        ("sbitvec([bit])", "making an sbitvec"),
        ("program.options", "program.options"),
        # What a program cannot know while it is laid out.
        ("if s > 3: pass", "sint in if"),
        ("if k == 3: pass", "comparing cint"),
        ("if k: pass", "cint in if"),
        ("while bit: pass", "sbits in if"),
        ("assert k.reveal() == sint(3)", "sint in if"),
        ("k in [1, 2]", "comparing cint"),
        ("bit == bit", "comparing sbits"),
        ("k < 4", "cint"),
        ("range(k)", "cint"),
        ("[1, 2][s]", "sint"),
        ("int(k)", "cint"),
        ("{s: 1}", "sint"),
        ("{bit: 1}", "sbits"),
        ("import numpy; numpy.int64(3) * x", "int64"),
        # Operations that are not there, or not for these operands.
        ("x & y", "sint"),
        ("x ^ 1", "sint"),
        ("x >> 1", "sint"),
        ("x / 2", "sint"),
        ("x % 2", "sint"),
        ("x ** 2", "sint"),
        ("c // 2", "cint"),
        ("bit | other", "sbits"),
        ("bit & 1", "secret bits and int"),
        ("bit ^ x", "secret bits and sint"),
        ("bit + other", "sbits"),
        ("bit & single", "different numbers of lanes"),
        ("x + 1.5", "float"),
        ("x + '1'", "str"),
        ("x < None", "NoneType"),
        ("x == bit", "sbits"),
        ("x + y.get_vector(0, 3)", "4 and 3 lanes"),
        ("c - cint([1, 2])", "4 and 2 lanes"),
        ("x < sint([1, 2])", "4 and 2 lanes"),
        ("x.get_vector(2, 3)", "no lanes 2 to 5"),
        ("x.get_vector(-1, 1)", "no lanes"),
        ("x.get_vector(0, 0)", "no lanes"),
        ("c.get_vector(2)", "size"),
        ("x[1:3]", "index"),
        ("x[0] = s", "sint"),
        ("sint()", "value"),
        ("sint(x, size=3)", "3"),
        ("sint([])", "list"),
        ("sint([s, s])", "list"),
        ("sint(1.5)", "float"),
        ("sint(1, size=0)", "size of a vector"),
        ("cint(x)", "sint"),
        ("sint.concat([x, c])", "cint"),
        ("sint.dot_product(x, s)", "equal lengths"),
        ("sint.dot_product([x, s], [x, s])", "equal lengths"),
        ("sint.dot_product([x], [x, x])", "equal lengths"),
        ("sint.get_input_from(0, size=2)", "binary=True"),
        ("sint.get_input_from(1, binary=True, size=2)", "party 0 to 0"),
        ("sint.get_input_from(k, binary=True, size=2)", "party 0 to 0"),
        ("sbitvec.get_type(64)", "1 to 63"),
        ("sbitvec.get_type(0)", "1 to 63"),
        ("sint.get_random_bit(size=9)", "sint.get_random_bit"),
        ("start_timer(1)", "start_timer"),
        ("print_ln('%s', x)", "printing sint"),
        ("print_ln('%s', bit)", "printing sbits"),
        ("print_ln('%s', [k])", "printing list"),
        ("print_ln('%s')", "0 values for 1"),
        ("print_ln('', k)", "1 values for 0"),
    ],
)
def test_refuses(party: OneParty, line: str, names_it: str) -> None:
    outcome = party.run(BEFORE + line, integers=(*BITS, 0, 0))
    last = BEFORE.count("\n") + 1
    assert outcome.error == "UnsupportedFeature"
    where, _, what = outcome.message.partition(": ")
    assert where in {f"case.mpc:{last}", f"case.mpc:{last + line.count(chr(10))}"}
    assert names_it in what
    assert outcome.printed == ""


@pytest.mark.parametrize(
    "line",
    [
        "sint(2**63)",
        "cint([0, -2**63 - 1])",
        "x + 2**63",
        "cint(2**62) * 2",
        "cint(-2**63) - 1",
        "-cint(-2**63)",
    ],
)
def test_values_that_mp_spdz_would_wrap_are_refused(party: OneParty, line: str) -> None:
    outcome = party.run("x = sint(1)\n" + line)
    assert outcome.error == "DomainOverflow"
    assert outcome.message.startswith("case.mpc:2: ")
    assert not set("3456789") & set(outcome.message.replace("2^63", ""))


def test_revealed_values_that_mp_spdz_would_wrap_are_the_nearest_inside(party: OneParty) -> None:
    """As a client's garbage makes them: the run goes on with what is right."""
    outcome = party.run("print_ln('%s', (sint([2**62, 5, -2**62]) * 2 - sint([0, 0, 1])).reveal())")
    assert outcome.printed == f"[{2**63 - 1}, 10, {-(2**63)}]\n"


def test_place_is_the_circuits_line_if_the_circuit_left_the_subset(party: OneParty) -> None:
    text = "from fairshares.protocols.circuits.noise import flip\n"
    text += "from fairshares.protocols.circuits.coins import Coin\n"
    outcome = party.run(text + "flip(Coin(1, 1), [sint(1)])")
    circuit = (PROJECT / "protocols" / "circuits" / "noise.py").read_text().splitlines()
    line = 1 + next(i for i, step in enumerate(circuit) if "~chain if" in step)
    assert outcome.error == "UnsupportedFeature"
    assert outcome.message.startswith(f"noise.py:{line}: ") and "sint" in outcome.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nx = (", "case.mpc:2: "),
        ("x = 1\nint('ninety')", "case.mpc:2: the program ended with ValueError."),
        ("from fractions import Fraction\nFraction('1/0')", "case.mpc:2: the program ended with Zero"),
        ("assert False", "case.mpc:1: the program ended with AssertionError."),
    ],
)
def test_program_that_refuses_its_arguments(party: OneParty, text: str, message: str) -> None:
    outcome = party.run(text)
    assert outcome.error == "CompileError"
    assert outcome.message.startswith(message) and "ninety" not in outcome.message


READ_TWO = "print_ln('%s', sint.get_input_from(0, binary=True, size=2).reveal())"
READ_BITS = "print_ln('%s', sint(sbitvec.get_type(3).get_input_from(0, size=2).v[2]).reveal())"


def test_inputs_are_signed_elements_and_bits_lowest_first(party: OneParty) -> None:
    outcome = party.run(READ_TWO + "\n" + READ_BITS, elements=(5, FIELD.modulus - 3), integers=(4, 3))
    assert outcome.printed == "[5, -3]\n[1, 0]\n"


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (READ_TWO, {"elements": (77,)}, "fewer input values"),
        (READ_TWO, {}, "fewer input values"),
        (READ_TWO, {"elements": (77, 78, 79)}, "more input values"),
        ("", {"elements": (77,)}, "more input values"),
        (READ_TWO, {"elements": (77, FIELD.modulus)}, "no field element"),
        (READ_TWO, {"elements": (77, 1 << 127)}, "no field element"),
        (READ_BITS, {"integers": (7,)}, "fewer input bits"),
        (READ_BITS, {"integers": (7, 7, 7)}, "more input bits"),
        (READ_BITS, {"integers": (7, 8)}, "does not fit its 3 bits"),
        (READ_BITS, {"integers": (7, -1)}, "does not fit its 3 bits"),
    ],
)
def test_input_that_does_not_fit_the_program(
    party: OneParty, text: str, given: dict[str, tuple[int, ...]], message: str
) -> None:
    outcome = party.run(text, **given)
    assert outcome.error == "ShareError"
    assert message in outcome.message
    assert not {"7", "8"} & set(outcome.message)
