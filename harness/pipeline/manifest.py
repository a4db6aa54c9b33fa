"""What a run says of itself: the manifest for machines, the privacy statement for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from harness.engines.base import EngineResult
from harness.inputs.contribution_bounds import WEIGHT_ONE, Cap
from harness.inputs.rings import FIELD
from harness.privacy.ledger.populations import exact_json
from harness.security_models import Model
from protocols.accounting.calibration import NeighboringRelation, NoisePlan, compose
from protocols.accounting.rounding import digits_up, float_up
from protocols.circuits.clients import CHECKS
from protocols.noise.truncated import Guarantee
from protocols.spec import CLIENTS, RECORDS_OF_UPLOADS, InputForm, ProtocolSpec

SCHEMA = 1
INFERRED = "domain inferred from records"
_TAKING_PART = (
    "That a client takes part is not protected: the number of clients is public, and with --records exactly "
    "the clients in the file take part."
)
_EXISTENCE = (
    "Each client has one record at most: for what a record says, not whether it exists, it is ε = {} and "
    "δ = {}; --neighboring-relation replace_one keeps to the requested ones."
)
_CAP = "What one client contributes: {}. Kept to by {}."
EXCHANGED = (
    "records exchanged for others, as a party can move one to another cell and fill an empty slot: twice as "
    "much as for records left out"
)
HONEST_CLIENTS = (
    "what clients share are counts of records, as a client that shares a number far beyond them can have the "
    "exact counts of a cell opened"
)
_INFERRED = (
    "Groups and labels were read off the records, so which of them occur is not protected; "
    "declare them with --domain, or with --groups and --labels."
)


def privacy_fields(
    spec: ProtocolSpec,
    form: InputForm,
    model: Model,
    plan: NoisePlan,
    inferred: bool,
    cap: Cap | None = None,
    max_count: int | None = None,
) -> dict[str, Any]:
    """Return the `privacy` object of a manifest.

    Guarantees: epsilon and delta are upper bounds of the exact ones, which are rational; the engine's
    own security is stated beside them, never merged.  [test: tests/harness/pipeline/test_manifest.py]
    Args: max_count: the declared most records of a client. If that is 1, and whether it exists is what is
    protected, `if_replaced` is what protects what it says.
    """
    existence_only = max_count == 1 and plan.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    return {
        "epsilon": float_up(plan.exact.epsilon),
        "delta": float_up(plan.exact.delta),
        "epsilon_exact": str(plan.exact.epsilon),
        "delta_exact": str(plan.exact.delta),
        "epsilon_requested": str(plan.requested_epsilon),
        "neighboring_relation": str(plan.relation),
        "privacy_unit": str(plan.unit),
        "mpc_statistical_security_bits": model.statistical_security_bits,
        "input_form": form.name,
        "input_path": form.path.described,
        "revealed": list(spec.revealed),
        **({"cap": cap.to_json(), "cap_kept_by": form.capped} if cap else {}),
        **({"if_replaced": exact_json(plan.if_replaced)} if existence_only else {}),
        **({"noise_for": EXCHANGED} if plan.malleable_slots else {}),
        **({"assumed": HONEST_CLIENTS} if assumes_honest_clients(spec, form, model) else {}),
        "public": [
            *(said for said in form.public if not cap or said != RECORDS_OF_UPLOADS),
            "most records of one client",
            *([cap.described] if cap else []),
            *([INFERRED] if inferred else []),
        ],
    }


def assumes_honest_clients(spec: ProtocolSpec, form: InputForm, model: Model) -> bool:
    """Return whether a client that shares other numbers than it may can take the noise's effect away.

    Not where what is opened is a sum, up to noise, nor where clients share bits; nor in a ring, around which
    no step is above those that are charged (`circuits.logarithm`). Those that a field compares are small.
    [test: tests/programs/test_pi_count.py]
    """
    return not spec.linear and not form.shares_bits and model.domain is FIELD


def manifest(
    task: str,
    result: EngineResult,
    privacy: dict[str, Any],
    inputs: dict[str, int],
    charged: dict[str, Any] | None,
    wall_s: float,
    share_s: float,
    uploaded: Sequence[int] = (),
) -> dict[str, Any]:
    """Return a finished run's `manifest.json`.

    Args: inputs: the public numbers about them; charged: what the ledger says of it; uploaded: bytes that
    clients uploaded to each party before the run, empty if that is not known.
    """
    return {
        "schema": SCHEMA,
        "task": task,
        "model": result.model.name,
        "engine": result.model.engine,
        "engine_version": result.engine_version,
        "program_hash": result.program_hash,
        "compile_options": list(result.compile_options),
        "privacy": privacy,
        "inputs": inputs,
        "ledger": charged,
        "mpc_s": result.mpc_s,
        "party_mpc_s": list(result.party_mpc_s),
        "online_s": result.online_s,
        "offline_s": result.offline_s,
        "wall_s": wall_s,
        "compile_s": result.compile_s,
        "share_s": share_s,
        "rounds": result.rounds,
        "sent_bytes": list(result.sent_bytes),
        "peak_memory_bytes": list(result.peak_memory_bytes),
        **_traffic_of_clients(result, uploaded),
        "network": result.network.fields() if result.network else None,
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Return what figures may depend on besides the program: machine, load, versions."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "packages": {name: version(name) for name in ("mpyc", "numpy", "pandas")},
    }


def _traffic_of_clients(result: EngineResult, uploaded: Sequence[int]) -> dict[str, list[int]]:
    """Return, per party, the bytes that clients sent to it and received from it, as far as is known."""
    if result.client_bytes is None:
        return {"client_sent_bytes": list(uploaded)} if uploaded else {}
    sent, received = zip(*result.client_bytes, strict=True)
    return {"client_sent_bytes": list(sent), "client_received_bytes": list(received)}


_ADDED_UP = ("mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s", "rounds")
_OF_EACH_PARTY: dict[str, Callable[[Iterable[Any]], Any]] = {
    **dict.fromkeys(("sent_bytes", "party_mpc_s", "client_sent_bytes", "client_received_bytes"), sum),
    "peak_memory_bytes": max,
}


_BROKEN = (
    " The model is made for parties that deviate, but MP-SPDZ's check of them is without effect "
    "(docs/limitations.md): count on those that keep to the protocol only."
)


def combined_manifest(
    task: str, parts: Mapping[str, dict[str, Any]], asked: Guarantee | None = None
) -> dict[str, Any]:
    """Return the manifest of several releases on the same people, made by one model.

    Computes: epsilon, delta, seconds, rounds and bytes add up (basic composition), a party's memory is the
    most that it took in one; what was opened or is public in one is so in all of them together; what else one
    says, and a later one does not say otherwise, goes for all. `parts` holds each release's own manifest.
    [test: tests/harness/pipeline/test_manifest.py]
    Args: parts: by name, in the order of the releases, alike in model, relation, unit and clients; asked:
    what the last was asked to keep to, where its noise follows from what was opened before. It counts with
    all of that, as for another outcome it would have spent another part of it.
    """
    manifests = list(parts.values())
    privacies = [part["privacy"] for part in manifests]
    spent = [
        Guarantee(*(Fraction(each[f"{name}_exact"]) for name in ("epsilon", "delta"))) for each in privacies
    ]
    both = compose([*spent[:-1], asked or spent[-1]])
    bits = privacies[-1]["mpc_statistical_security_bits"]
    exact = {"epsilon": both.epsilon, "delta": both.delta}
    privacy = {
        **{name: value for privacy in privacies for name, value in privacy.items()},
        **{name: float_up(total) for name, total in exact.items()},
        **{f"{name}_exact": str(total) for name, total in exact.items()},
        "epsilon_requested": str(sum(Fraction(privacy["epsilon_requested"]) for privacy in privacies)),
        **_if_replaced([each["if_replaced"] for each in privacies if "if_replaced" in each]),
        # Any of n runs may fail: n times as likely, rounded up to a power of 2.
        "mpc_statistical_security_bits": bits and bits - (len(privacies) - 1).bit_length(),
        **{
            name: list(dict.fromkeys(text for privacy in privacies for text in privacy[name]))
            for name in ("revealed", "public")
        },
    }
    return {
        **manifests[-1],
        "task": task,
        "program_hash": " ".join(part["program_hash"] for part in manifests),
        "privacy": privacy,
        **{name: _total(part[name] for part in manifests) for name in _ADDED_UP},
        **{
            name: [function(values) for values in zip(*(part[name] for part in manifests), strict=False)]
            for name, function in _OF_EACH_PARTY.items()
            if all(name in part for part in manifests)
        },
        "parts": dict(parts),
    }


def _if_replaced(each: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return what releases together protect a replaced record by, if each says it."""
    found = [Guarantee(Fraction(one["epsilon"]), Fraction(one["delta"])) for one in each]
    return {"if_replaced": exact_json(compose(found))} if found else {}


def bounds_shown(privacy: Mapping[str, Any]) -> tuple[str, str]:
    """Return ε and δ of a `privacy` object as people are shown them: four digits, rounded up."""
    epsilon, delta = (digits_up(Fraction(privacy[f"{name}_exact"]), 4) for name in ("epsilon", "delta"))
    return epsilon, delta


def _contribution(cap: int | str) -> str:
    if cap == WEIGHT_ONE:
        return "all records of a client weigh 1 together, each as much as the others, rounded at random"
    most = "one record of a client counts" if cap == 1 else f"at most {cap} records of a client count"
    return f"{most}, chosen at random if there are more"


def _total(values: Iterable[Any]) -> Any:
    """Return the sum, None if one of the values is not known."""
    found = list(values)
    return None if None in found else sum(found)


def privacy_statement(privacy: dict[str, Any], model: Model) -> list[str]:
    """Say in sentences what was opened, what that gives away at most, and under which assumptions.

    Guarantees: no ε or δ in it is below the exact one.  [test: tests/harness/pipeline/test_manifest.py]
    """
    unit = f"one {privacy['privacy_unit']} of a client"
    change = {
        "add_or_remove_one": f"{unit} added or removed",
        "replace_one": f"{unit} replaced by another",
        "zero_out_one": "all records of a client together, there or not",
    }[privacy["neighboring_relation"]]
    behaviour = {
        "passive": "keeps to the protocol but looks at all it receives",
        "active": "may deviate from the protocol",
    }[model.tolerates]
    epsilon, delta = bounds_shown(privacy)
    replaced = [digits_up(Fraction(value), 4) for value in privacy.get("if_replaced", {}).values()]
    statistical = privacy["mpc_statistical_security_bits"]
    slack = (
        "" if statistical is None else f" The engine's own security fails with probability 2^-{statistical}."
    )
    if model.broken:
        slack += _BROKEN
    elif model.active and privacy["input_path"] == CLIENTS.described:
        slack += f" It cannot change what a client sent unnoticed, but for probability 2^-{CHECKS}."
    elif model.active:
        slack += " It can, however, change its share of a client's input unnoticed."
    return [
        f"Opened: {'; '.join(privacy['revealed'])}. Nothing else leaves the computation.",
        f"Guarantee: (ε, δ)-differential privacy with ε = {epsilon} and δ = {delta}, for {change} "
        f"(ε = {privacy['epsilon_requested']} was requested; exact values are in manifest.json).",
        *([_EXISTENCE.format(*replaced)] if replaced else []),
        *([_CAP.format(_contribution(privacy["cap"]), privacy["cap_kept_by"])] if "cap" in privacy else []),
        *([f"The noise is for {privacy['noise_for']}."] if "noise_for" in privacy else []),
        *([f"Assumed: {privacy['assumed']}."] if "assumed" in privacy else []),
        f"Public: {', '.join(privacy['public'])}.",
        _TAKING_PART,
        *([_INFERRED] if INFERRED in privacy["public"] else []),
        f"Computation: {model.parties} parties, model {model.name}: any {model.corruptions} of them, which "
        f"{behaviour}, learns nothing more.{slack}",
    ]
