"""What a release says of its privacy: the `privacy` object for machines, the same in sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from harness.inputs.contribution_bounds import WEIGHT_ONE, Cap
from harness.inputs.rings import FIELD
from harness.privacy.ledger.populations import exact_json
from harness.security_models import Model
from protocols.accounting.calibration import NeighboringRelation, NoisePlan
from protocols.accounting.rounding import digits_up, exact_text, float_up
from protocols.circuits.clients import CHECKS
from protocols.circuits.coins import exp_bounds
from protocols.noise.tables import OwnNoise
from protocols.spec import CLIENTS, HONEST, RECORDS_OF_UPLOADS, REPLICATED, InputForm, ProtocolSpec

INFERRED = "domain inferred from records"
_TAKING_PART = (
    "Taking part is not protected: the number of clients is public, and with --records exactly the clients "
    "in the file take part."
)
_EXISTENCE = (
    "Each client has one record at most, and the guarantee above is for whether it exists. For what it says "
    "it is ε = {} and δ = {}; --neighboring-relation replace_one keeps these to what was requested."
)
_CAP = "Cap: {}. Kept to by {}."
EXCHANGED = (
    "replaced records, twice that for left-out ones, as a party can move a record to another cell or fill "
    "an empty slot"
)
HONEST_CLIENTS = (
    "clients share true counts, as one that shares a number far beyond them can get a cell's exact counts "
    "revealed"
)
SHIFTED = "a party that deviates can shift what is revealed by any amounts, unnoticed, by its noise"
OWN = (
    "Noise: each party adds its own ({law}), and the guarantee counts that of {honest_parties} of {parties}, "
    "as the others may tell theirs. Note that {shifted}."
)
_END_TO_END = (
    "End to end: against whoever controls one of {parties} parties, which {may}, any other clients{honest} "
    "and the network, ε = {epsilon} holds with δ′ = δ + (1 + e^ε)·(η + ν) ≤ {delta} + (1 + e^ε)·ν, where "
    "η = {eta} is the engine's chance to fail, and ν that of breaking {cryptography}."
)
_INFERRED = (
    "Groups and labels were read off the records, so which of them occur is not protected; "
    "declare them with --domain, or with --groups and --labels."
)
_BROKEN = (
    " The model is made for parties that deviate, but MP-SPDZ's check of them is without effect "
    "(docs/explanation/limitations.md): it counts as passive."
)


def privacy_fields(
    spec: ProtocolSpec,
    form: InputForm,
    model: Model,
    plan: NoisePlan,
    inferred: bool,
    cap: Cap | None = None,
    max_count: int | None = None,
    compared: int = 0,
) -> dict[str, Any]:
    """Return the `privacy` object of a manifest.

    Guarantees: epsilon and delta are upper bounds of the exact ones, which are rational; the engine's
    own security is stated beside them; `end_to_end` joins the two.
    [test: tests/harness/pipeline/test_manifest.py]
    Args: max_count: the declared most records of a client. If that is 1, and whether it exists is what is
    protected, `if_replaced` is what protects what it says; compared: how many integers the program compares.
    """
    existence_only = max_count == 1 and plan.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    fields = {
        "epsilon": float_up(plan.exact.epsilon),
        "delta": float_up(plan.exact.delta),
        "epsilon_exact": str(plan.exact.epsilon),
        "delta_exact": str(plan.exact.delta),
        "epsilon_requested": str(plan.requested_epsilon),
        "neighboring_relation": str(plan.relation),
        "privacy_unit": str(plan.unit),
        "mpc_statistical_security_bits": model.security_bits(compared),
        "input_form": form.name,
        "input_path": form.path.described,
        "revealed": list(spec.revealed),
        **({"cap": cap.to_json(), "cap_kept_by": form.capped} if cap else {}),
        **({"if_replaced": exact_json(plan.if_replaced)} if existence_only else {}),
        **({"noise_for": EXCHANGED} if plan.neighbors.malleable_slots else {}),
        **(own_noise_fields(plan.own, form) if plan.own else {}),
        **({"assumed": HONEST_CLIENTS} if assumes_honest_clients(spec, form, model) else {}),
        "public": [
            *(said for said in form.public if not cap or said != RECORDS_OF_UPLOADS),
            "most records of one client",
            *([cap.described] if cap else []),
            *([INFERRED] if inferred else []),
        ],
    }
    return {**fields, "end_to_end": end_to_end(fields, model)}


def end_to_end(privacy: Mapping[str, Any], model: Model, runs: int = 1) -> str:
    """Say in one sentence what noise, engine and cryptography protect together.

    Source: simulation-based differential privacy (Mironov, Pandey, Reingold and Vadhan 2009, SIM-CDP).
    Computes: delta + (1 + e^epsilon) eta, eta all that fails by chance: the engine, and the checks by which
    clients that send notice active parties; rounded up, at most 1.
    Guarantees: docs/explanation/theorems.md, theorem 7.
    [test: tests/harness/privacy/test_end_to_end.py, tests/harness/pipeline/test_manifest.py]
    Args: privacy: a manifest's object; runs: how many it is of.
    """
    epsilon, delta = (Fraction(privacy[f"{name}_exact"]) for name in ("epsilon", "delta"))
    bits, active = privacy["mpc_statistical_security_bits"], model.tolerates == "active"
    eta = Fraction(0) if bits is None else Fraction(1, 1 << bits)
    if active and privacy["input_path"] == CLIENTS.described:
        eta += Fraction(runs, 1 << CHECKS)
    total = delta + (1 + exp_bounds(min(epsilon, Fraction(64)))[1]) * eta
    return _END_TO_END.format(
        parties=model.parties,
        may="may deviate" if active else "follows the protocol",
        honest=" that share true counts" if "assumed" in privacy else "",
        epsilon=digits_up(epsilon, 4),
        delta=digits_up(min(total, Fraction(1)), 4),
        eta=digits_up(eta, 2),
        cryptography=model.cryptography,
    )


def own_noise_fields(noise: OwnNoise, form: InputForm) -> dict[str, Any]:
    """Return what a manifest says of noise of the parties' own; of joint noise it says nothing."""
    slots = form.path.authenticated or form.exchangeable  # of which none becomes more than a record
    alike = "with joint noise it could not" if slots else "as it can by its shares"
    return {
        "noise": "own",
        "law": str(noise.law),
        "honest_parties": noise.honest,
        "shifted": f"{SHIFTED}; {alike}",
    }


def assumes_honest_clients(spec: ProtocolSpec, form: InputForm, model: Model) -> bool:
    """Return whether a client that shares other numbers than it may can take the noise's effect away.

    Not where what is opened is a sum, up to noise, nor where clients share bits; nor in a ring, around which
    no step is above those that are charged (`circuits.logarithm`). Those that a field compares are small.
    [test: tests/programs/test_pi_count.py]
    """
    return not spec.linear and not form.shares_bits and model.domain is FIELD


def bounds_shown(privacy: Mapping[str, Any]) -> tuple[str, str]:
    """Return ε and δ of a `privacy` object as people are shown them: four digits, rounded up."""
    epsilon, delta = (digits_up(Fraction(privacy[f"{name}_exact"]), 4) for name in ("epsilon", "delta"))
    return epsilon, delta


def what_changes(unit: str, relation: str) -> str:
    """Say what sets neighboring data sets apart. Args: unit, relation: as a manifest has them."""
    return {
        "add_or_remove_one": f"one {unit} added or removed",
        "replace_one": f"one {unit} replaced",
        "zero_out_one": "all of a client's records",
    }[relation]


def privacy_in_short(
    privacy: Mapping[str, Any], model: Model, typed: str = "", here: bool = False
) -> list[str]:
    """Say in three lines what `privacy_statement` says in full: what was revealed, how much, whom to trust.

    Guarantees: no ε or δ in it is below the exact one.  [test: tests/harness/pipeline/test_manifest.py]
    Args: typed: the ε that was asked for, as its user gave it; here: whether all parties ran on this machine.
    """
    epsilon, delta = bounds_shown(privacy)
    asked = typed or exact_text(Fraction(privacy["epsilon_requested"]))
    change = what_changes(privacy["privacy_unit"], privacy["neighboring_relation"])
    replaced = [digits_up(Fraction(value), 4) for value in privacy.get("if_replaced", {}).values()]
    existence = f"; for what it says, ε = {replaced[0]}, δ = {replaced[1]}" if replaced else ""
    inferred = ", and which groups and labels there are" if INFERRED in privacy["public"] else ""
    trust = "semi-honest" if model.tolerates == "passive" else "malicious"
    if model.broken:
        trust += ", though MP-SPDZ's check has no effect: docs/explanation/limitations.md"
    trust = f"{model.parties} parties, {trust}, no {model.corruptions + 1} collude"
    clients = "; clients, to share counts of records" if "assumed" in privacy else ""
    if privacy.get("cap_kept_by") == HONEST:
        clients += "; clients, to keep to the cap"
    if "shifted" in privacy:
        clients += f"; {SHIFTED}"
    return [
        f"Revealed: {'; '.join(privacy['revealed'])}{inferred}.",
        f"Guarantee: ε = {epsilon} ({asked} asked), δ = {delta}, {change}{existence}.",
        f"Trust: this machine, which ran all ({model.name}: {trust}){clients}."
        if here
        else f"Trust: {trust} ({model.name}){clients}.",
    ]


def privacy_statement(privacy: dict[str, Any], model: Model, typed: str = "") -> list[str]:
    """Say in sentences what was opened, what that gives away at most, and under which assumptions.

    Guarantees: no ε or δ in it is below the exact one.  [test: tests/harness/pipeline/test_manifest.py]
    Args: typed: as in `privacy_in_short`.
    """
    unit = f"one {privacy['privacy_unit']} of a client"
    change = {
        "add_or_remove_one": f"{unit} added or removed",
        "replace_one": f"{unit} replaced by another",
        "zero_out_one": "all records of a client together, there or not",
    }[privacy["neighboring_relation"]]
    asked = typed or exact_text(Fraction(privacy["epsilon_requested"]))
    epsilon, delta = bounds_shown(privacy)
    replaced = [digits_up(Fraction(value), 4) for value in privacy.get("if_replaced", {}).values()]
    slack = ""
    if model.broken:
        slack = _BROKEN
    elif model.active and privacy["input_path"] == CLIENTS.described:
        slack = f" It cannot change what a client sent unnoticed, but for probability 2^-{CHECKS}."
    elif model.active and privacy["input_path"] == REPLICATED.described:
        slack = (
            " It cannot change what a client shared either: that report is left out, or the run ends. In "
            f"turn any {model.corruptions + 1} of them together hold everything that waits for the run."
        )
    elif model.active:
        slack = " It can, however, change its share of a client's input unnoticed."
    learns = who_learns_nothing(model, "shifted" in privacy)
    return [
        f"Revealed: {'; '.join(privacy['revealed'])}. Nothing else leaves the computation.",
        f"Guarantee: (ε, δ)-differential privacy with ε = {epsilon} and δ = {delta}, for {change} "
        f"(ε = {asked} was requested; exact values are in manifest.json).",
        *([_EXISTENCE.format(*replaced)] if replaced else []),
        *([_CAP.format(_contribution(privacy["cap"]), privacy["cap_kept_by"])] if "cap" in privacy else []),
        *([f"The noise is for {privacy['noise_for']}."] if "noise_for" in privacy else []),
        *([OWN.format(**privacy, parties=model.parties)] if "shifted" in privacy else []),
        *([f"Assumed: {privacy['assumed']}."] if "assumed" in privacy else []),
        f"Public: {', '.join(privacy['public'])}.",
        _TAKING_PART,
        *([_INFERRED] if INFERRED in privacy["public"] else []),
        f"Computation: {model.parties} parties, model {model.name}: {learns}.{slack}",
        privacy["end_to_end"],
    ]


def who_learns_nothing(model: Model, own_noise: bool = False) -> str:
    """Say which party learns no more than what is revealed; true, too, where several do not."""
    behaviour = {
        "passive": "if it follows the protocol (passive, or semi-honest)",
        "active": "even if it deviates from the protocol (active, or malicious)",
    }[model.tolerates]
    more = "anything more, but what its own noise in it tells it," if own_noise else "anything more"
    return f"no single party learns {more} {behaviour}"


def _contribution(cap: int | str) -> str:
    if cap == WEIGHT_ONE:
        return "all records of a client weigh 1 together, each as much as the others, rounded at random"
    most = "one record of a client counts" if cap == 1 else f"at most {cap} records of a client count"
    return f"{most}, chosen at random if there are more"
