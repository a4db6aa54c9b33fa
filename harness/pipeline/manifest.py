"""What a run says of itself: the manifest for machines, the privacy statement for people."""

import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import __version__
from harness.engines.base import EngineResult
from harness.privacy.statement import PrivacyStatement, read_statement
from protocols.guarantee import Guarantee

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
    record = {**result.flat(), "wall_s": wall_s, "share_s": share_s}
    traffic = {
        "client_sent_bytes": record.pop("client_sent_bytes") or list(uploaded),
        "client_received_bytes": list(result.client_received_bytes or ()),
    }
    return {
        "schema": SCHEMA,
        "task": task,
        "model": result.model.name,
        "privacy": privacy,
        "inputs": inputs,
        "ledger": charged,
        **record,
        **{name: sizes for name, sizes in traffic.items() if sizes},
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


_ADDED_UP = ("mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s", "rounds")
_OF_EACH_PARTY: dict[str, Callable[[Iterable[Any]], Any]] = {
    **dict.fromkeys(("sent_bytes", "party_mpc_s", "client_sent_bytes", "client_received_bytes"), sum),
    "peak_memory_bytes": max,
}


def combined_manifest(
    task: str, parts: Mapping[str, dict[str, Any]], asked: Guarantee | None = None
) -> dict[str, Any]:
    """Return the manifest of several releases on the same people, made by one model.

    Computes: their privacy as `PrivacyStatement.plus` says; seconds, rounds and bytes add up, a party's
    memory is the most that it took in one; what else one says, and a later one does not say otherwise, goes
    for all. `parts` holds each release's own manifest.
    [test: tests/harness/pipeline/test_manifest.py]
    Args: parts: by name, in the order of the releases, alike in model, relation, unit and clients; asked:
    what the last was asked to keep to, where its noise follows from what was opened before. It counts with
    all of that, as for another outcome it would have spent another part of it.
    """
    manifests = list(parts.values())
    *earlier, last = (read_statement(part) for part in manifests)
    together = [*earlier, replace(last, exact=asked) if asked else last]
    privacy = reduce(PrivacyStatement.plus, together).to_json()
    return {
        **manifests[-1],
        "task": task,
        "program_hash": " ".join(part["program_hash"] for part in manifests),
        "privacy": privacy,
        **{name: sum_if_known(part[name] for part in manifests) for name in _ADDED_UP},
        **{
            name: [function(values) for values in zip(*(part[name] for part in manifests), strict=False)]
            for name, function in _OF_EACH_PARTY.items()
            if all(name in part for part in manifests)
        },
        "parts": dict(parts),
    }


def sum_if_known(values: Iterable[float | None]) -> float | None:
    """Return the sum, None if one of the values is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if len(known) == len(listed) else None
