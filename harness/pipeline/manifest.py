"""What a run says of itself: the manifest for machines, the privacy statement for people."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import __version__
from harness.engines.base import EngineResult
from harness.privacy.ledger.populations import exact_json
from harness.privacy.statement import end_to_end
from harness.security_models import get_model
from protocols.accounting.rounding import float_up
from protocols.guarantee import Guarantee, compose

SCHEMA = 1
_PROCESSOR = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


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
        **({"hosts": dict(result.hosts)} if result.hosts else {}),
    }


def environment() -> dict[str, Any]:
    """Return what figures may depend on besides the program: machine, load, versions."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "packages": {
            "fairshares": __version__,
            **{name: version(name) for name in ("mpyc", "numpy", "pandas")},
        },
    }


def machine() -> dict[str, Any]:
    """Return what the machine is; the processor's name where the kernel tells it (Linux)."""
    try:
        found = _PROCESSOR.search(Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": found[1] if found else platform.processor(), "memory_bytes": memory}


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
    # Any of the runs may fail: their probabilities add up, and the sum is rounded up to a power of 2.
    bits = [b for each in privacies if (b := each["mpc_statistical_security_bits"]) is not None]
    failure = sum(Fraction(1, 2**b) for b in bits)
    exact = {"epsilon": both.epsilon, "delta": both.delta}
    privacy = {
        **{name: value for privacy in privacies for name, value in privacy.items()},
        **{name: float_up(total) for name, total in exact.items()},
        **{f"{name}_exact": str(total) for name, total in exact.items()},
        "epsilon_requested": str(sum(Fraction(privacy["epsilon_requested"]) for privacy in privacies)),
        **_if_replaced([each["if_replaced"] for each in privacies if "if_replaced" in each]),
        "mpc_statistical_security_bits": int(1 / failure).bit_length() - 1 if failure else None,
        **{
            name: list(dict.fromkeys(text for privacy in privacies for text in privacy[name]))
            for name in ("revealed", "public")
        },
    }
    model = get_model(manifests[-1]["model"])
    privacy |= {"end_to_end": end_to_end(privacy, model, len(parts))}
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


def _total(values: Iterable[Any]) -> Any:
    """Return the sum, None if one of the values is not known."""
    found = list(values)
    return None if None in found else sum(found)
