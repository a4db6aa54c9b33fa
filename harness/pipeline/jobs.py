"""The engine's job of a release."""

from fairshares.harness.engines.execution import PROGRAMS, DistributedNoiseInput, PrivateJob
from fairshares.harness.inputs.encoding import count_columns
from fairshares.harness.online.session import ClientInputs
from fairshares.harness.pipeline.preprocessing import joint_noise_of
from fairshares.harness.pipeline.sources import PartyInputs
from fairshares.harness.releases.base import Answer, PreparedRelease
from fairshares.protocols.circuits.coins import family_of
from fairshares.protocols.circuits.noise import input_widths, noise_arguments
from fairshares.protocols.spec import ColumnSums


def make_job(prepared: PreparedRelease[Answer], inputs: PartyInputs) -> PrivateJob:
    """Return the engine's job, with the arguments of the protocol's spec."""
    release = prepared.release
    plan = prepared.plan
    spec = prepared.program
    rows = 0 if release.form.summed_by_party else inputs.rows
    fair_bits: tuple[tuple[int, int], ...] = ()
    if not plan.own and not spec.uses_piece:
        widths = input_widths(joint_noise_of(prepared).fair_bits)
        fair_bits = tuple((width, plan.nodes) for width in widths)
    own: DistributedNoiseInput | None = None
    if plan.own or spec.adds_to_sums:
        own = _own_input(prepared, inputs, rows)
    family = family_of(plan.coins)
    epsilon, delta_bits = noise_arguments(plan.node_epsilon, plan.node_delta_bits, family)
    arguments = {
        "form": release.form.name,
        "path": release.form.path.name,
        "parties": release.model.parties,
        "clients": rows,
        "records": inputs.entries if release.form.a_value_per_record else rows,
        "slots": inputs.entries,
        "per_lane": release.model.slots_per_lane,
        "parts": inputs.values.parts if isinstance(inputs.values, ClientInputs) else 0,
        "epsilon": epsilon,
        "delta_bits": delta_bits,
        "nodes": plan.nodes,
        "kept": 0,
    }
    if plan.rounds is not None:
        arguments.update(plan.rounds.noise.arguments())
    elif plan.own is not None:
        arguments.update(plan.own.arguments())
    arguments.update(prepared.arguments)
    return PrivateJob(
        spec=spec,
        source=PROGRAMS / f"{spec.name}.mpc",
        arguments=tuple(str(arguments[name]) for name in spec.arguments),
        values=inputs.values,
        fair_bits=fair_bits,
        piece_at_hosts=inputs.piece_at_hosts,
        own=own,
    )


def _own_input(prepared: PreparedRelease[Answer], inputs: PartyInputs, rows: int) -> DistributedNoiseInput:
    """Return how each party's noise enters its inputs; `rows` is 0 for sums."""
    form = prepared.release.form
    nodes = prepared.plan.nodes
    declared = prepared.program.release
    # Parties hold no values then, or shares of bits.
    if isinstance(inputs.values, ClientInputs) or form.shares_bits:
        return DistributedNoiseInput(nodes)
    columns = count_columns(inputs.domain, form.name)
    if not form.summed_by_party:
        return DistributedNoiseInput(nodes, columns * rows)
    if not prepared.program.adds_to_sums:
        return DistributedNoiseInput(nodes, columns)
    assert isinstance(declared, ColumnSums)  # else its own program would run
    sums = declared.sums({name: str(value) for name, value in prepared.arguments.items()})
    return DistributedNoiseInput(nodes, columns, sums.values)
