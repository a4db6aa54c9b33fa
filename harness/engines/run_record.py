"""What a run cost, and what ran: the one record of it, which manifests and measured runs have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

TIMES = ("mpc_s", "party_mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s")


def times_of(party_mpc_s: Sequence[float], compile_s: float, **known: float | None) -> dict[str, Any]:
    """Return all times of a run; `mpc_s`, the slowest party's, is what comparisons with the papers use."""
    seconds = {"mpc_s": max(party_mpc_s), "party_mpc_s": list(party_mpc_s), "compile_s": compile_s}
    return {**dict.fromkeys(TIMES), **seconds, **known}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What a run cost, and what ran.

    Attributes:
        engine: Name of the engine, None if nothing ran.
        engine_version: What identifies the installation.
        program_hash: Of code, arguments, compile options and engine; None if nothing was compiled.
        compile_options: Of MP-SPDZ's compiler.
        times: Seconds by name, `TIMES`, None where not known. Those in the computation include preprocessing,
            and neither start-up nor compilation.
        rounds: Of the party with most, None if the engine does not count them.
        sent_bytes: What each party sent to the others.
        client_sent_bytes: What clients sent to each party, None where not known.
        peak_memory_bytes: Of each party, empty where not known.
        network: What lay between the parties, as wanted and as measured; None on the machine's own loopback.
    """

    engine: str | None = None
    engine_version: str | None = None
    program_hash: str | None = None
    compile_options: tuple[str, ...] = ()
    times: Mapping[str, Any] = field(default_factory=lambda: dict.fromkeys(TIMES))
    rounds: int | None = None
    sent_bytes: tuple[int, ...] = ()
    client_sent_bytes: tuple[int, ...] | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    network: Mapping[str, Any] | None = None

    def flat(self) -> dict[str, Any]:
        """Return the record as a manifest has it: times beside the rest, lists in place of tuples."""
        rest = {each.name: getattr(self, each.name) for each in fields(RunRecord) if each.name != "times"}
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in rest.items()}
        return {**self.times, **lists}


def fields_of_record(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the record that a manifest has, as `RunRecord` takes them."""
    times = {name: manifest[name] for name in TIMES}
    names = {each.name for each in fields(RunRecord)} & manifest.keys()
    return {"times": times, **with_tuples({name: manifest[name] for name in names})}


def with_tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields from JSON with tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
