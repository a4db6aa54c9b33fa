"""No program that is made for use can open anything without its noise: read off the programs' text.

A program is refused unless it makes noise once, by the circuit, of its epsilon and delta and from bits of all
parties; adds it to what circuits make of the inputs; and opens that sum, or what is computed from it, and
nothing else. A program does no arithmetic on secrets, so what a record moves is up to its circuits. Circuits
read nothing from outside and open nothing, but for the masks and sums of clients' input.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.engines.execution import PROGRAMS, PROJECT
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.sources import PartyInputs
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.circuits.noise import coins_of_arguments, fair_bits_per_sample
from fairshares.protocols.spec import (
    CLIENTS,
    PI_LAP,
    PI_ROUNDS,
    PI_SUM,
    REPLICATED,
    SPLIT,
    ProtocolSpec,
    with_noise_made_ahead,
)
from tests.support.program_arguments import SMALL_ARGUMENTS
from tests.support.requests import request_of

# The last arguments may say the distribution of distributed noise, however many these are.
DISTRIBUTION = "*law"


@dataclass(frozen=True)
class Opening:
    """What a program opens.

    Attributes: opened: noise itself, what has noise added to it, or of π_CAP an index that noise on all
    counts decides; lanes: how many samples of noise; circuits: what it calls besides the circuit that makes
    noise; made: how what is opened is computed, where it is no sum.
    """

    opened: str
    lanes: str
    circuits: str
    made: tuple[str, ...] = ()


TREE = "block_sizes block_sums count_blocks"
OPENINGS = {
    "pi_lap": Opening("noise", "samples", ""),
    "pi_sum": Opening("noise", "nodes", ""),
    "pi_rounds": Opening("sums + noise", "coordinates", "input_columns"),
    "pi_rw": Opening(
        "counts + noise",
        "groups * labels",
        "front columns_of_clients column_totals counts_by_product input_columns",
    ),
    "pi_rw_slots": Opening("counts + noise", "groups * labels", "counts_of_slots"),
    "pi_cf": Opening("counts + noise", "groups * labels * labels", "confusion_by_product input_columns"),
    "pi_cf_slots": Opening("counts + noise", "groups * labels * labels", "counts_of_slots"),
    "pi_roc": Opening("sums + noise", "count_blocks(histograms, bins, sizes)", f"{TREE} input_columns"),
    "pi_roc_records": Opening(
        "sums + noise", "count_blocks(histograms, bins, sizes)", f"{TREE} input_columns counts_of_keys"
    ),
    "pi_gap": Opening("sums + noise", "2 * int(groups)", "input_columns"),
    "pi_gap_slots": Opening("sums + noise", "2 * groups", "sums_of_slots"),
    "pi_count": Opening("logarithms + noise", "int(groups) * int(labels)", "input_columns shifted_log"),
    "pi_cap": Opening(
        "index",
        "queries + 1",
        "counts_of_slots counts_from_each_on first_below",
        ("index = first_below(sint, check_point, counts, above, noise)",),
    ),
}

CIRCUITS = sorted(path.stem for path in (PROJECT / "protocols" / "circuits").glob("[!_]*.py"))
MODULES = {*(f"fairshares.protocols.circuits.{name}" for name in CIRCUITS), "fractions"}
CALLED = {"check_point", "print_ln", "int", "len", "Fraction", "ValueError"}
# Names of the engines; none but print_ln opens values, and other than XORed bits come from none.
BUILT_IN = {
    *CALLED,
    *("program", "sint", "cint", "personal", "sbits", "sbitvec", "regint", "for_range", "if_", "break_point"),
    *("listen_for_clients", "accept_client_connection", "get_cmdline_arg"),
}

# Where making noise and adding it are apart: pinned in tests/harness/pipeline/test_preprocessing.py.
NOISY = {name: spec for name, spec in PROTOCOLS.items() if not (spec.makes_piece or spec.uses_piece)}
programs = pytest.mark.parametrize("spec", NOISY.values(), ids=NOISY)


def text_of(spec: ProtocolSpec) -> str:
    return (PROGRAMS / f"{spec.name}.mpc").read_text(encoding="utf-8")


def faults(text: str, spec: ProtocolSpec) -> list[str]:
    """Return why a program's text could open values without the noise that its spec stands for."""
    tree, opening = one_round(text), OPENINGS[spec.name]
    circuits = {*opening.circuits.split(), maker(spec), *(["with_path"] if _takes_several(spec) else [])}
    return [
        *_argument_faults(tree, spec),
        *_name_faults(tree, circuits),
        *_secret_faults(tree, circuits, opening),
        *_noise_faults(
            tree, opening, f"{maker(spec)}(sint, sbitvec, parties, {{}}, {distribution_of(spec)})"
        ),
        *_opening_faults(tree, spec, opening),
    ]


def one_round(text: str) -> ast.Module:
    """Return a program with what it does in each round in the place of the loop, which is its last statement.

    A round's names are its own, and its noise is made where it is opened, or was kept for its turn.
    """
    tree = ast.parse(text)
    *before, last = tree.body
    if isinstance(last, ast.FunctionDef) and ast.unparse(last.args) == "turn":
        of_turn = [node for node in ast.walk(last) if isinstance(node, ast.Call) and node.keywords]
        named = [ast.unparse(keyword) for call in of_turn for keyword in call.keywords]
        if [*map(ast.unparse, last.decorator_list), *named] == ["for_range(rounds)", "turn=turn"]:
            of_turn[0].keywords = []
            tree.body = [*before, *last.body]
    return tree


def maker(spec: ProtocolSpec) -> str:
    """Return the circuit that makes a program's noise."""
    return "noise_by_law" if spec.name == PI_ROUNDS.name else "default_noise"


def distribution_of(spec: ProtocolSpec) -> str:
    """Return what a program makes its noise by."""
    either = spec.draws_distributed_noise or with_noise_made_ahead(spec, SPLIT.by(CLIENTS)) is not None
    return DISTRIBUTION if either and spec.name not in ("pi_roc", "pi_gap") else "epsilon, delta_bits"


def _takes_several(spec: ProtocolSpec) -> bool:
    """Whether a program may be told the clients' path, additive shares where it is not."""
    return REPLICATED in spec.input_paths and "path" not in spec.arguments


def _named(node: ast.AST) -> list[str]:
    """Return the names in it, as often as they are there."""
    return [name_node.id for name_node in ast.walk(node) if isinstance(name_node, ast.Name)]


def _bindings(tree: ast.AST) -> list[tuple[str, ast.expr]]:
    """Return each name that is bound, and what to: of a tuple, its part."""
    bindings = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=True)
            bindings += [(name, part) for bound, part in pairs for name in _named(bound)]
    return bindings


def _argument_faults(tree: ast.Module, spec: ProtocolSpec) -> Iterator[str]:
    given = "with_path(program.args)" if _takes_several(spec) else "program.args"
    taken = [name for name, value in _bindings(tree) if ast.unparse(value) == given]
    of_distribution = {DISTRIBUTION: 3 if spec.draws_distributed_noise else 2}.get(distribution_of(spec), 0)
    told = spec.by(REPLICATED).arguments if _takes_several(spec) else spec.arguments
    named = [*told[: len(told) - of_distribution], *(["law"] if of_distribution else [])]
    if taken != ["_", *named] or _named(tree).count("program") != 1:
        yield "arguments other than the spec's"
    if not set(spec.arguments) <= SMALL_ARGUMENTS.keys():
        yield "an argument that nobody has judged"
    for name, value in _bindings(tree):
        if name in named and ast.unparse(value) not in (given, f"int({name})"):
            yield f"{name} is changed"


def _name_faults(tree: ast.Module, circuits: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        kinds = ast.ImportFrom | ast.Assign | ast.If | ast.Expr | ast.Raise
        if isinstance(node, ast.stmt) and not isinstance(node, kinds):
            yield "a statement of another kind"
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            yield "a value with two names"
        if isinstance(node, ast.Subscript | ast.NamedExpr | ast.Lambda | ast.comprehension):
            yield "a part of something, or a name within an expression"
        if isinstance(node, ast.If) and not {"form", "path"} >= set(_named(node.test)):
            yield "a decision on something else than how inputs come"
        if isinstance(node, ast.ImportFrom) and node.module not in MODULES:
            yield "an import of something else"
        if isinstance(node, ast.alias) and (node.name not in {*circuits, "Fraction"} or node.asname):
            yield f"{node.name} is imported"
    bound = {name for name, _ in _bindings(tree)}
    for name in sorted({*_named(tree)} - circuits - bound - BUILT_IN):
        yield f"{name} comes from elsewhere"
    for name in sorted(bound & (circuits | BUILT_IN)):
        yield f"{name} is redefined"


def _secret_faults(tree: ast.Module, circuits: set[str], opening: Opening) -> Iterator[str]:
    """Yield where a program does more with secrets than to hand them from one circuit to the next."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.Expr)]
    secrets = {"sint"}  # and what is made by it, or of that
    for _ in statements:
        secrets |= {name for name, value in _bindings(tree) if secrets & {*_named(value)}}
    for node in statements:
        value = node.value
        handed_on: list[str] = []
        whole = isinstance(value, ast.Call) and ast.unparse(value.func) in circuits
        if isinstance(value, ast.Call) and whole:
            handed_on = [argument.id for argument in value.args if isinstance(argument, ast.Name)]
        calls = [ast.unparse(part.func) for part in ast.walk(value) if isinstance(part, ast.Call)]
        if {*calls[whole:]} - CALLED - {f"({opening.opened}).reveal", f"{opening.opened}.reveal"}:
            yield f"a call within {ast.unparse(node)}"
        used = [name for name in _named(value) if name in secrets]
        pinned = node is tree.body[-1] or ast.unparse(node) in opening.made
        if not pinned and ("noise" in used or used != [name for name in handed_on if name in used]):
            yield f"something else is done with {', '.join(used)}"


def _noise_faults(tree: ast.Module, opening: Opening, call: str) -> Iterator[str]:
    at_the_top = [ast.unparse(node) for node in tree.body]
    made = dict(line.split(" = ", 1) for line in opening.made)
    values = [(name, ast.unparse(value)) for name, value in _bindings(tree)]
    calls = [value for name, value in _bindings(tree) if name == "noise" and isinstance(value, ast.Call)]
    lanes = ast.unparse(calls[0].args[3]) if calls and len(calls[0].args) > 3 else "nothing"
    made["noise"] = call.format(lanes)
    if lanes != opening.lanes:
        made[lanes] = opening.lanes
    for name, how in made.items():
        if [value for bound, value in values if bound == name] != [how] or (
            name != lanes and f"{name} = {how}" not in at_the_top
        ):
            yield f"{name} is not made as it should be"


def _opening_faults(tree: ast.Module, spec: ProtocolSpec, opening: Opening) -> Iterator[str]:
    if sorted(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)) != ["args", "reveal"]:
        yield "a value is used in another way, or two are opened"
    (output,) = spec.outputs
    value = ast.unparse(ast.parse(f"({opening.opened}).reveal()"))
    if ast.unparse(tree.body[-1]) != f"print_ln('OUT {output} %s', {value})":
        yield "something else is opened"
    if _named(tree).count("print_ln") != 1:
        yield "something is printed in another way"


def test_every_program_has_a_spec() -> None:
    assert {path.stem for path in PROGRAMS.glob("*")} == set(PROTOCOLS)
    assert set(NOISY) == set(OPENINGS)
    assert all(spec.release is not None for spec in PROTOCOLS.values())


@programs
def test_production_programs_always_add_their_noise(spec: ProtocolSpec) -> None:
    assert faults(text_of(spec), spec) == []


OF_OPENED_NOISE = {
    "scaled": ("noise.reveal()", "(noise * 1).reveal()"),
    "more likely edges": ("epsilon, delta_bits)", "epsilon, 20)"),
    "bits of one party": ("sbitvec, parties,", "sbitvec, 1,"),
}
SWITCHES = {
    PI_RW.name: {
        "no noise": ("(counts + noise)", "counts"),
        "noise taken off again": ("(counts + noise)", "(counts + noise - noise)"),
        "noise times zero": ("(counts + noise)", "(counts + 0 * noise)"),
        "noise times an argument": ("(counts + noise)", "(counts + labels * noise)"),
        "one lane of it": ("(counts + noise)", "(counts + noise[0])"),
        "noise too small": ("counts = input_columns(", "counts = 1000 * input_columns("),
        "noise too small for clients": ("column_totals(sint, columns", "column_totals(sint, 9 * columns"),
        "noise too small for one": ("clients, cells)", "clients, cells)\n    counts[0] *= 9"),
        "clients' values opened": ("column_totals(sint, columns, clients, cells)", "columns.reveal()"),
        "somebody else's values": ("number = front(", "number = 0 * front("),
        "noise too small afterwards": ("print_ln(", "counts *= 1000\nprint_ln("),
        "opened twice": ("print_ln(", "print_ln('OUT counts %s', counts.reveal())\nprint_ln("),
        "opened to one party": ("print_ln(", "counts.reveal_to(0)\nprint_ln("),
        "opened in a branch": (
            'if path == "clients":',
            'if path == "clients":\n    sint(1).reveal()',
        ),
        "noise opened as well": ("print_ln(", "print_ln('OUT noise %s', noise.reveal())\nprint_ln("),
        "noise overwritten": ("print_ln(", "noise = noise * 0\nprint_ln("),
        "noise overwritten in a branch": ("print_ln(", "if labels == 2:\n    noise = 0\nprint_ln("),
        "noise changed in place": ("print_ln(", "noise += 1\nprint_ln("),
        "noise only sometimes": ("noise = ", "if path == 'shares':\n    noise = "),
        "another integer": ("noise = ", "sint = cint\nnoise = "),
        "bits of one party": ("default_noise(sint, sbitvec, parties,", "default_noise(sint, sbitvec, 1,"),
        "fewer parties": ("noise = ", "parties = 1\nnoise = "),
        "the same noise everywhere": ("parties, cells, *law", "parties, 1, *law"),
        "another distribution": ("noise = ", "law = ['20', '20']\nnoise = "),
        "other coins": ("cells, *law)", "cells, '20', '20')"),
        "a distribution more": ("cells, *law)", "cells, 1, *law)"),
        "a walrus": ("print_ln(", "print_ln('%s', (noise := counts))\nprint_ln("),
        "a loop": ("print_ln(", "for noise in [0]:\n    pass\nprint_ln("),
        "a function": ("print_ln(", "def default_noise(*_):\n    return 0\nprint_ln("),
        "circuit redefined": ("noise = ", "default_noise = max\nnoise = "),
        "circuit under another name": ("import default_noise", "import xor_of_inputs as default_noise"),
        "an argument more": (
            "labels, *law = program.args",
            "labels, given, *law = program.args",
        ),
        "an argument by number": ("cells = ", "given = program.args[9]\ncells = "),
        "the environment": (
            "from fairshares.protocols.circuits.noise",
            "import os\nfrom fairshares.protocols.circuits.noise",
        ),
        "the environment by name": (
            "from fairshares.protocols.circuits.noise",
            "from os import environ\nfrom fairshares.protocols.circuits.noise",
        ),
        "a file": ("cells = ", "given = open('given-bits')\ncells = "),
        "a name looked up": ("cells = ", "given = globals()\ncells = "),
        "public bits": ("cells = ", "given = public_input()\ncells = "),
        "other labels of output": ("OUT counts", "OUT cell_counts"),
        "another circuit": ("column_totals(sint, columns,", "counts_of_keys(sint, for_range, columns,"),
        "noise for one count": ("cells = groups * labels", "cells = 1"),
        "a secret sum": ("print_ln(", "counts = counts + counts\nprint_ln("),
        "noise somewhere else": ("check_point()  #", "counts = column_totals(sint, noise)\ncheck_point()  #"),
        "a choice by size": ('if path == "clients":', "if clients:"),
    },
    PI_SUM.name: {
        "noise of one party": ("sbitvec, parties,", "sbitvec, 1,"),
        "somebody's column alone": ("noise.reveal()", "(noise - noise).reveal()"),
        "a column more": (
            "check_point()",
            "noise = default_noise(sint, sbitvec, 1, nodes, *law)\ncheck_point()",
        ),
    },
    PI_ROUNDS.name: {
        "no noise": ("(sums + noise)", "sums"),
        "noise of one party": ("sbitvec, parties,", "sbitvec, 1,"),
        "the same noise in all rounds": ("@for_range", "noise = noise_by_law(sint)\n\n@for_range"),
        "sums opened as well": (
            "check_point()",
            "print_ln('OUT exact %s', sums.reveal())\n    check_point()",
        ),
        "sums of earlier rounds": ("(sums + noise)", "(sums - noise)"),
        "kept noise of one turn in all": ("*law, turn=turn", "*law"),
        "kept noise of another turn": ("turn=turn", "turn=0"),
        "another loop": ("for_range(rounds)", "for_range(rounds * 2)"),
        "something after the loop": (
            "(sums + noise).reveal())",
            "(sums + noise).reveal())\nprint_ln('OUT more')",
        ),
    },
    PI_LAP.name: OF_OPENED_NOISE,
    PI_CAP.name: {
        "no noise": ("above, noise)", "above, noise * 0)"),
        "counts as well": ("index.reveal()", "(index + counts).reveal()"),
        "noise on some counts": ("samples = queries + 1", "samples = queries"),
        "noise too small": ("queries, memory, path)", "queries, memory, path) * 9"),
    },
}


@pytest.mark.parametrize(
    ("name", "switch"), [(name, switch) for name, switches in SWITCHES.items() for switch in switches]
)
def test_a_program_that_could_leave_noise_out_is_refused(name: str, switch: str) -> None:
    spec = PROTOCOLS[name]
    old, new = SWITCHES[name][switch]
    text = text_of(spec)
    assert text.count(old) == 1
    assert faults(text.replace(old, new), spec) != []


@programs
def test_active_parties_are_checked_before_the_opening(spec: ProtocolSpec) -> None:
    """Else `spdz2k` opens a result with a tampered noise bit first, and notices after: seen on a run."""
    steps = [ast.unparse(step) for step in one_round(text_of(spec)).body]
    assert [i for i, step in enumerate(steps) if ".reveal()" in step] == [len(steps) - 1]
    assert steps[-2] == "check_point()"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE])
def test_the_harness_compiles_what_it_accounts_for(
    model: SecurityModel, relation: NeighboringRelation
) -> None:
    """π_RW's arguments lead to the plan's coins, all parties draw, and they draw as many bits as are used."""
    settings = request_of(model, SPLIT, Fraction(1, 3), Fraction(1, 2**40), relation=relation)
    domain = RecordDomain(("a", "b"), ("0", "1", "2"))
    prepared = WeightsStatistic().prepare(settings, domain)
    plan, fed = prepared.plan, PartyInputs(domain, 10, 1, 10)
    job = make_job(prepared, fed)
    arguments = dict(zip(PI_RW.arguments, job.arguments, strict=True))
    assert arguments["parties"] == str(model.parties)
    assert coins_of_arguments(arguments["epsilon"], arguments["delta_bits"]) == plan.coins
    assert {lanes for _, lanes in job.fair_bits} == {6}
    assert sum(width for width, _ in job.fair_bits) == fair_bits_per_sample(plan.coins)
    assert job.source == PROGRAMS / "pi_rw.mpc"


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_read_nothing_from_outside(name: str) -> None:
    """No environment, no file, no randomness of their own: what they compute follows from their arguments.

    One module asks MP-SPDZ's compiler for its modulus and its machine, and nothing else.
    """
    tree = ast.parse((PROJECT / "protocols" / "circuits" / f"{name}.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert modules <= {
        "__future__",
        "collections.abc",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "math",
        "typing",
    } | MODULES | ({"sys"} if name == "machine" else set())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"open", "eval", "exec", "getattr", "globals", "__import__", "input"}


# What a circuit may ask the compiler, word for word.
ASKED_OF_THE_COMPILER = {
    "is_for_a_prime": [
        "compiler = sys.modules.get('Compiler.program')",
        "return compiler is not None and bool(compiler.Program.prog.prime)",
    ],
    "parties_that_mask": [
        "compiler = sys.modules.get('Compiler.program')",
        "if compiler is None:\n    return secret_integer.parties_that_mask"
        " if hasattr(secret_integer, 'parties_that_mask') else 0",
        "return compiler.Program.prog.use_split()"
        " if compiler.Program.prog.options.execute == 'semi2k' else 0",
    ],
    "may_enter_no_bits": [
        "compiler = sys.modules.get('Compiler.program')",
        "return compiler is not None and compiler.Program.prog.options.execute == 'mal-shamir'",
    ],
}


def test_the_compiler_is_asked_for_its_modulus_and_machine_alone() -> None:
    tree = ast.parse((PROJECT / "protocols" / "circuits" / "machine.py").read_text(encoding="utf-8"))
    asked = {
        node.name: [ast.unparse(step) for step in node.body[1:]]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    assert asked == ASKED_OF_THE_COMPILER
    others = [node for node in tree.body[1:] if not isinstance(node, ast.FunctionDef)]
    assert [ast.unparse(node) for node in others] == ["from __future__ import annotations", "import sys"]


OPENS = {
    "reveal",
    "reveal_to",
    "reveal_list",
    "print_ln",
    "print_str",
    "binary_output",
    "write_to_file",
    "print",
}


OPENED_BY_CIRCUITS = {
    "clients": {"reveal", "write_shares_to_socket", "write_to_socket"},
    "integers": {"reveal"},
    "noise": {"reveal"},
}


def opened_by_a_circuit(source: str) -> set[str]:
    """Return what a circuit calls that could open a value, or hand it out: only programs may."""
    called = {node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
    return {name for name in names if name in OPENS or name.startswith(("reveal", "print", "write"))}


def test_circuits_open_nothing(project: Path) -> None:
    for path in (project / "protocols" / "circuits").glob("*.py"):
        allowed = OPENED_BY_CIRCUITS.get(path.stem, set())
        assert opened_by_a_circuit(path.read_text(encoding="utf-8")) == allowed, path.name
    assert opened_by_a_circuit("def f(x):\n    return [y.reveal() for y in x]") == {"reveal"}
    assert opened_by_a_circuit("def f(x, print_ln):\n    print_ln('%s', x)") == {"print_ln"}


def test_bits_are_opened_as_a_sum_with_a_mask_alone(project: Path) -> None:
    """Word for word; that this says nothing: tests/protocols/test_integers.py."""
    tree = ast.parse((project / "protocols" / "circuits" / "integers.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    opening = functions.pop("_under_a_mask")
    assert [ast.unparse(step) for step in opening.body] == [
        "(first, _), *_ = terms",
        "mask = secret_integer.get_random(size=first.n)",
        "columns = mask.split_to_n_summands(MASK_BITS, parties)",
        "constant = add_to_columns(columns, terms)",
        "opened = 0",
        "for place, bit in enumerate(sum_of_columns(columns)):\n"
        "    opened = opened + (bit.reveal().to_regint_by_bit() << place)",
        "return secret_integer(opened) - mask + constant",
    ]
    assert all(opened_by_a_circuit(ast.unparse(other)) == set() for other in functions.values())


def test_what_parties_entered_for_bits_is_opened_under_bits_of_the_machine_alone(project: Path) -> None:
    """Word for word; that this says nothing: tests/protocols/test_bits_of_elements.py."""
    tree = ast.parse((project / "protocols" / "circuits" / "noise.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    opening = functions.pop("bit_of_element")
    assert [ast.unparse(step) for step in opening.body[1:]] == [
        "_, own = secret_integer.get_dabit(size=lanes)",
        "return own ^ (element ^ own).reveal()",
    ]
    assert all(opened_by_a_circuit(ast.unparse(other)) == set() for other in functions.values())


# What clients' input does, word for word: random masks and offsets go to the client, sums that have an offset
# each are opened, no client is told a sum before the check, and nothing else leaves but what fronts compare.
STEPS_OF_CLIENTS = [
    "size = columns * clients",
    "words = DIGEST_WORDS * parts",
    "masks = secret.get_random(size=size)",
    "offsets = secret.get_random(size=checks(parts) * parts)",
    "secret.write_shares_to_socket(number, [masks])",
    "secret.write_shares_to_socket(number, [offsets])",
    "compare_at_fronts(secret, public, personal, number, check_point, parties, words)",
    "subsets = public.read_from_socket(number, size=size).bit_decompose(checks(parts))",
    "sums = secret.concat([part_sums(masks * chosen, parts) for chosen in subsets]) + offsets",
    "opened = sums.reveal()",
    "check_point()",
    "opened.write_to_socket(number, [opened])",
    "compare_at_fronts(secret, public, personal, number, check_point, parties, words)",
    "masked = public.read_from_socket(number, size=size)",
    "present = public.read_from_socket(number, size=size)",
    "values = (masked - masks) * present",
    "return values.concat([values.get_vector(j, clients, columns) for j in range(columns)])",
]
# Each party's own words, of what clients sent it, are input by it before any are opened.
STEPS_OF_FRONTS = [
    "own = public.read_from_socket(number, size=words)",
    "opened = secret.concat([secret(personal(i, own)) for i in range(parties)]).reveal()",
    "check_point()",
    "opened.write_to_socket(number, [opened])",
]


def test_clients_are_sent_their_masks_and_checked_sums_only(project: Path) -> None:
    tree = ast.parse((project / "protocols" / "circuits" / "clients.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, steps in (("columns_of_clients", STEPS_OF_CLIENTS), ("compare_at_fronts", STEPS_OF_FRONTS)):
        own = functions.pop(name)
        assert [ast.unparse(step) for step in own.body[1:]] == steps
    assert all(opened_by_a_circuit(ast.unparse(other)) == set() for other in functions.values())
