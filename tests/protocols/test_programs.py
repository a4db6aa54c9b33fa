"""No program that is made for use can open anything without its noise: read off the programs' text.

A program is refused unless each value that it opens is noise, or a sum with noise, that was made once, by
the circuit, from coins designed for its epsilon and delta and from bits of all parties.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from harness.engines.base import PROGRAMS
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.party_inputs import PartyInputs
from harness.pipeline.run import Settings, make_job, plan_release
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS, Model
from protocols.accounting.calibration import NeighboringRelation
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample
from protocols.spec import PI_CAP, PI_LAP, PI_LAP_SYMMETRIC, PI_RW, PROTOCOLS, SPLIT, ProtocolSpec

# Every argument that a program may have. None takes noise away: epsilon is at most 20 and delta_bits at
# least 20 (coins.py refuses others), the rest are sizes, names of forms, who takes part, and how weights are
# computed from noisy counts.
KNOWN_ARGUMENTS = {
    *("form", "path", "parties", "clients", "parts", "records", "groups", "labels", "bins", "blocks"),
    *("samples", "slots", "per_lane", "steps", "epsilon", "offset", "most", "queries", "above"),
    *("delta_bits", "reweighing", "most_records"),
}

# How noise is made, word for word, each once and at the top level; LANES is the number of values opened.
MADE = {
    "coins": "design_coins(Fraction(epsilon), int(delta_bits))",
    "fair": "jointly_random_bits(sbitvec, parties, LANES, fair_bits_per_sample(coins))",
    "noise": "to_integer(two_sided_geometric(coins, fair), sint)",
}
MADE_OTHERWISE = {
    "pi_lap_symmetric": {
        "coins": "design_symmetric_coins(Fraction(epsilon), int(delta_bits))",
        "fair": "jointly_random_bits(sbitvec, parties, LANES, fair_bits_per_symmetric_sample(coins))",
        "noise": "symmetric_integer(symmetric_geometric(coins, fair), sint)",
    },
}
LANES = {
    **dict.fromkeys(("pi_lap", "pi_lap_symmetric", "pi_cap"), "samples"),
    **dict.fromkeys(("pi_rw", "pi_rw_weights", "pi_rw_slots", "pi_cf", "pi_cf_slots", "pi_count"), "cells"),
    **dict.fromkeys(("pi_roc", "pi_roc_records", "pi_roc_published", "pi_gap", "pi_gap_slots"), "nodes"),
}
# What is opened: noise itself, or what has noise added to it, or is computed from that sum and from public
# values alone, and how that is made; of π_CAP, an index that noise on all counts decides. Nothing may scale
# it up, as the noise is for one record that adds 1.
OPENED = {
    **dict.fromkeys(("pi_lap", "pi_lap_symmetric"), "noise"),
    **dict.fromkeys(("pi_rw", "pi_rw_slots", "pi_cf", "pi_cf_slots", "pi_roc_published"), "counts + noise"),
    **dict.fromkeys(("pi_roc", "pi_roc_records", "pi_gap", "pi_gap_slots"), "sums + noise"),
    "pi_rw_weights": "found",
    "pi_count": "logarithms + noise",
    "pi_cap": "index",
}
COUNTS = {
    "counts": [
        "input_columns(sint, parties, cells)",
        "counts_by_product(sint, columns, clients, groups, labels)",
    ],
    "columns": ["input_columns(sint, parties, (groups - 1 + labels) * clients)"],
    "cells": ["groups * labels"],
}
WEIGHTS = {
    "chosen": ["layout(groups, labels, reweighing, int(most_records), len(coins))"],
    "found": ["weights(sint, sbitvec, counts + noise, chosen)"],
}
SLOTTED = {
    "counts": ["counts_of_slots(sint, sbitvec, parties, slots, per_lane, cells, memory)"],
    "memory": ["(sbits, for_range, break_point) if per_lane > 1 else ()"],
}
INDEX = {"index": ["first_below(sint, counts, above, noise)"]}
BLOCKS = {
    "sums": ["block_sums(sint, counts, histograms, bins, sizes)"],
    "nodes": ["count_blocks(histograms, bins, sizes)"],
    "sizes": ["block_sizes(blocks)"],
}
VALUES = {
    "pi_lap": {},
    "pi_lap_symmetric": {},
    "pi_rw": {
        "counts": [
            "input_columns(sint, parties, cells)",
            "column_totals(sint, columns, clients, cells)",
            "counts_by_product(sint, columns, clients, groups, labels)",
            "counts_by_product(sint, columns, clients, groups, labels)",
        ],
        "columns": [
            "columns_of_clients(sint, cint, number, check_point, cells, clients, parts)",
            "input_columns(sint, parties, (groups - 1 + labels) * clients)",
            "columns_of_clients(sint, cint, number, check_point, groups - 1 + labels, clients, parts)",
        ],
        "number": ["front(listen_for_clients, accept_client_connection, get_cmdline_arg)"],
        "cells": ["groups * labels"],
    },
    "pi_rw_weights": {**COUNTS, **WEIGHTS},
    "pi_rw_slots": {**SLOTTED, "cells": ["groups * labels"]},
    "pi_cf_slots": {**SLOTTED, "cells": ["groups * labels * labels"]},
    "pi_cf": {
        "counts": [
            "input_columns(sint, parties, cells)",
            "confusion_by_product(sint, columns, records, groups, labels)",
        ],
        "columns": ["input_columns(sint, parties, (groups - 1 + 2 * (labels - 1)) * records)"],
        "cells": ["groups * labels * labels"],
    },
    "pi_gap_slots": {
        "sums": ["sums_of_slots(sint, sbitvec, parties, slots, per_lane, groups, int(steps), memory)"],
        "memory": ["(sbits, for_range, break_point) if per_lane > 1 else ()"],
        "nodes": ["2 * groups"],
    },
    "pi_gap": {"sums": ["input_columns(sint, parties, nodes)"], "nodes": ["2 * int(groups)"]},
    "pi_count": {
        "counts": ["input_columns(sint, parties, cells)"],
        "logarithms": ["shifted_log(sint, counts, int(offset), int(most))"],
        "cells": ["int(groups) * int(labels)"],
    },
    "pi_cap": {
        "counts": ["counts_from_each_on(sint, in_buckets)"],
        "in_buckets": ["counts_of_slots(sint, sbitvec, parties, slots, per_lane, queries, memory)"],
        "memory": ["(sbits, for_range, break_point) if per_lane > 1 else ()"],
        "samples": ["queries + 1"],
        **INDEX,
    },
    "pi_roc": {**BLOCKS, "counts": ["input_columns(sint, parties, histograms * bins)"]},
    "pi_roc_records": {
        **BLOCKS,
        "counts": ["counts_of_keys(sint, bits, keys, records, histograms * bins)"],
        "keys": ["input_columns(sint, parties, records)"],
        "bits": ["(sbits, sbitvec, regint, for_range, if_, break_point)"],
    },
    "pi_roc_published": {
        "counts": ["counts_at_thresholds(sint, for_range, columns, records, groups, labels, bins)"],
        "columns": ["input_columns(sint, parties, (groups + labels - 1) * records)"],
        "nodes": ["2 * groups * labels * bins"],
    },
}

# Where noise, or the coins that it is made of, may be used but for making and printing it, word for word.
USES = {
    program: [f"{name} = {made}" for name, (made,) in values.items()]
    for program, values in {"pi_rw_weights": WEIGHTS, "pi_cap": INDEX}.items()
}

CIRCUITS = (
    *("blocks", "clients", "coins", "counts", "division", "first_below", "logarithm"),
    *("noise", "slots", "sorting", "symmetric", "thresholds", "weights"),
)
MODULES = {*(f"protocols.circuits.{name}" for name in CIRCUITS), "fractions"}
# It takes no input and states no guarantee: its text is pinned, in test_published_program.py.
PINNED = "pi_lap_published"
# Names of the engines that open values, directly or in a file, or that other than XORed bits come from.
BUILT_IN = {
    *("check_point", "program", "sint", "cint", "print_ln", "start_timer", "stop_timer"),
    *("listen_for_clients", "accept_client_connection", "get_cmdline_arg"),
    *("sbits", "sbitvec", "regint", "for_range", "if_", "break_point"),
    *("int", "len", "sum", "range", "ValueError"),
}

NOISY = {name: spec for name, spec in PROTOCOLS.items() if name != PINNED}
programs = pytest.mark.parametrize("spec", NOISY.values(), ids=NOISY)


def text_of(spec: ProtocolSpec) -> str:
    return (PROGRAMS / f"{spec.name}.mpc").read_text(encoding="utf-8")


def faults(text: str, spec: ProtocolSpec) -> list[str]:
    """Return why a program's text could open values without the noise that its spec stands for."""
    return list(_faults(ast.parse(text), spec))


def _faults(tree: ast.Module, spec: ProtocolSpec) -> Iterator[str]:
    yield from _argument_faults(tree, spec)
    yield from _name_faults(tree)
    yield from _noise_faults(tree, spec)
    yield from _opening_faults(tree, spec)


def _assigned(node: ast.AST) -> list[str]:
    """Return the names that one statement or expression binds."""
    targets = [n for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    return [target.id for target in targets]


def _argument_faults(tree: ast.Module, spec: ProtocolSpec) -> Iterator[str]:
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "program.args"
    ]
    if len(found) != 1 or _assigned(found[0]) != ["_", *spec.arguments]:
        yield "arguments other than the spec's"
    if sum(isinstance(node, ast.Name) and node.id == "program" for node in ast.walk(tree)) != 1:
        yield "program is used for more than its arguments"
    if not set(spec.arguments) <= KNOWN_ARGUMENTS:
        yield "an argument that nobody has judged"
    for node in tree.body:
        for name in {"epsilon", "delta_bits", "parties"} & set(_assigned(node)):
            if node not in found and not (name == "parties" and "int(parties)" in ast.unparse(node)):
                yield f"{name} is changed"


def _name_faults(tree: ast.Module) -> Iterator[str]:
    imported = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if any(isinstance(node, ast.Import) for node in ast.walk(tree)) or not set(imported.values()) <= MODULES:
        yield "an import of something else"
    kinds = (ast.ImportFrom, ast.Assign, ast.If, ast.Expr, ast.Raise)
    if not all(isinstance(node, kinds) for node in ast.walk(tree) if isinstance(node, ast.stmt)):
        yield "a statement of another kind"
    if any(isinstance(node, ast.Subscript | ast.NamedExpr | ast.Lambda) for node in ast.walk(tree)):
        yield "a part of something, or a name within an expression"
    if any(isinstance(node, ast.alias) and node.asname for node in ast.walk(tree)):
        yield "an import under another name"
    bound = _assigned(tree)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in sorted(used - set(imported) - set(bound) - BUILT_IN):
        yield f"{name} comes from elsewhere"
    for name in sorted(set(bound) & (set(imported) | BUILT_IN)):
        yield f"{name} is redefined"


def _noise_faults(tree: ast.Module, spec: ProtocolSpec) -> Iterator[str]:
    making = MADE_OTHERWISE.get(spec.name, MADE)
    for name, made in making.items():
        expected = f"{name} = {made.replace('LANES', LANES[spec.name])}"
        if [ast.unparse(node) for node in tree.body if name in _assigned(node)] != [expected]:
            yield f"{name} is not made as it should be"
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    for name, made_as in VALUES[spec.name].items():
        found = [ast.unparse(node) for node in assignments if name in _assigned(node)]
        if found != [f"{name} = {made}" for made in made_as]:
            yield f"{name} is not made as it should be"
    lines = [f"{name} = {made}".replace("LANES", LANES[spec.name]) for name, made in making.items()]
    lines += USES.get(spec.name, [])
    allowed = [*lines, *(ast.unparse(node) for node in tree.body if _is_print(node))]
    for node in tree.body:
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & set(MADE)
        if used and ast.unparse(node) not in allowed:
            yield f"{', '.join(sorted(used))} used elsewhere"


def _is_print(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "print_ln"
    )


def _opening_faults(tree: ast.Module, spec: ProtocolSpec) -> Iterator[str]:
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    known = {"args", "reveal"}
    for name in sorted({node.attr for node in attributes} - known):
        yield f".{name} is used"
    revealed = [ast.unparse(node.value) for node in attributes if node.attr == "reveal"]
    if revealed != [OPENED[spec.name]]:
        yield "something else is opened"
    printed = [ast.unparse(node) for node in tree.body if _is_print(node)]
    (output,) = spec.outputs
    opened = OPENED[spec.name]
    value = f"{opened}.reveal()" if opened.isidentifier() else f"({opened}).reveal()"
    if printed != [f"print_ln('OUT {output} %s', {value})"]:
        yield "something else is printed"
    if sum(isinstance(node, ast.Name) and node.id == "print_ln" for node in ast.walk(tree)) != 1:
        yield "something is printed in another way"


def test_every_program_has_a_spec() -> None:
    assert {path.stem for path in PROGRAMS.glob("*")} == set(PROTOCOLS)
    assert set(NOISY) == set(LANES) == set(OPENED) == set(VALUES)
    assert all(spec.release is not None for spec in NOISY.values())


@programs
def test_production_programs_always_add_their_noise(spec: ProtocolSpec) -> None:
    assert faults(text_of(spec), spec) == []


SWITCHES = {
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
    "opened in a branch": ('if path == "clients":', 'if path == "clients":\n    print_ln(sint(1).reveal())'),
    "noise opened as well": ("print_ln(", "print_ln('OUT noise %s', noise.reveal())\nprint_ln("),
    "noise overwritten": ("print_ln(", "noise = noise * 0\nprint_ln("),
    "noise overwritten in a branch": ("print_ln(", "if labels == 2:\n    noise = 0\nprint_ln("),
    "noise changed in place": ("print_ln(", "noise += 1\nprint_ln("),
    "noise only sometimes": ("noise = to_integer", "if labels:\n    noise = to_integer"),
    "other bits": ("noise = to_integer", "fair = [sint(0)] * 9\nnoise = to_integer"),
    "bits changed in place": ("noise = to_integer", "fair[0] = fair[1]\nnoise = to_integer"),
    "bits of one party": ("jointly_random_bits(sbitvec, parties,", "jointly_random_bits(sbitvec, 1,"),
    "fewer parties": ("coins = ", "parties = 1\ncoins = "),
    "the same noise everywhere": ("parties, cells, fair", "parties, 1, fair"),
    "other epsilon": ("coins = ", "epsilon = 20\ncoins = "),
    "other coins": ("design_coins(Fraction(epsilon), int(delta_bits))", "[Coin(1, 60)]"),
    "a walrus": ("print_ln(", "print_ln('%s', (noise := counts))\nprint_ln("),
    "a loop": ("print_ln(", "for noise in [0]:\n    pass\nprint_ln("),
    "a function": ("print_ln(", "def to_integer(*_):\n    return 0\nprint_ln("),
    "circuit redefined": ("coins = ", "two_sided_geometric = max\ncoins = "),
    "circuit under another name": ("    to_integer,", "    input_widths as to_integer,"),
    "an argument more": ("epsilon, delta_bits = program.args", "epsilon, delta_bits, given = program.args"),
    "an argument by number": ("cells = ", "given = program.args[9]\ncells = "),
    "the environment": ("from fractions import Fraction", "import os\nfrom fractions import Fraction"),
    "the environment by name": ("from fractions", "from os import environ\nfrom fractions"),
    "a file": ("cells = ", "given = open('given-bits')\ncells = "),
    "a name looked up": ("cells = ", "given = globals()\ncells = "),
    "public bits": ("cells = ", "given = public_input()\ncells = "),
    "other labels of output": ("OUT counts", "OUT cell_counts"),
}  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_program_that_could_leave_noise_out_is_refused(switch: str) -> None:
    old, new = SWITCHES[switch]
    text = text_of(PI_RW)
    assert text.count(old) == 1
    assert faults(text.replace(old, new), PI_RW) != []


@pytest.mark.parametrize("spec", [PI_LAP, PI_LAP_SYMMETRIC], ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("noise.reveal()", "(noise * 1).reveal()"),
        ("(coins, fair)", "(coins, fair + fair)"),
        ("int(delta_bits))", "20)"),
        ("parties, samples, fair", "1, samples, fair"),
    ],
)
def test_opened_noise_comes_from_the_same_circuit(spec: ProtocolSpec, old: str, new: str) -> None:
    text = text_of(spec)
    assert text.count(old) == 1
    assert faults(text.replace(old, new), spec) != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("above, noise)", "above, noise * 0)"),
        ("index.reveal()", "(index + counts).reveal()"),
        ("samples = queries + 1", "samples = queries"),
        ("queries, memory)", "queries, memory) * 9"),
    ],
)
def test_an_index_is_decided_by_noise_on_all_counts(old: str, new: str) -> None:
    text = text_of(PI_CAP)
    assert text.count(old) == 1
    assert faults(text.replace(old, new), PI_CAP) != []


@pytest.mark.parametrize("spec", PROTOCOLS.values(), ids=PROTOCOLS)
def test_active_parties_are_checked_before_the_opening(spec: ProtocolSpec) -> None:
    """Else `spdz2k` opens a result with a tampered noise bit first, and notices after: seen on a run."""
    steps = [ast.unparse(step) for step in ast.parse(text_of(spec)).body]
    opening = [i for i, step in enumerate(steps) if ".reveal()" in step]
    assert opening == [len(steps) - 1]
    assert steps[-2] == "check_point()"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE])
def test_the_harness_compiles_what_it_accounts_for(model: Model, relation: NeighboringRelation) -> None:
    """π_RW's arguments lead to the plan's coins, all parties draw, and they draw as many bits as are used."""
    settings = Settings(model, SPLIT, Fraction(1, 3), Fraction(1, 2**40), relation)
    domain = RecordDomain(("a", "b"), ("0", "1", "2"))
    plan = plan_release(WeightsStatistic(), settings, domain)
    job = make_job(
        WeightsStatistic(), settings, plan, PartyInputs(domain, 10, 1, 10, [Path()] * model.parties)
    )
    arguments = dict(zip(PI_RW.arguments, job.arguments, strict=True))
    assert arguments["parties"] == str(model.parties)
    assert design_coins(Fraction(arguments["epsilon"]), int(arguments["delta_bits"])) == plan.coins
    assert {lanes for _, lanes in job.fair_bits} == {6}
    assert sum(width for width, _ in job.fair_bits) == fair_bits_per_sample(plan.coins)
    assert job.given_bits is None
    assert job.source == PROGRAMS / "pi_rw.mpc"
