"""Models' engines."""

from collections.abc import Callable
from functools import cache

from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.errors import named, named_command
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.protocols.json_values import JsonValue

PREFERRED = "ring"
FALLBACK = "mpyc"


@cache
def engines() -> dict[str, Engine]:
    """Return every engine by name."""
    known: tuple[Engine, ...] = (MpSpdzEngine(), EmbeddedEngine())
    return {engine.name: engine for engine in known}


def engine_of(model: SecurityModel) -> Engine:
    """Return the model's engine."""
    return engines()[model.engine]


def choose_model(name: str | None) -> SecurityModel:
    """Return the named model, by default `ring` if MP-SPDZ has it, else `mpyc`."""
    if name is not None:
        return get_model(name)
    preferred = get_model(PREFERRED)
    if engine_of(preferred).availability(preferred) is None:
        return preferred
    return get_model(FALLBACK)


def chosen_model(model: SecurityModel | None, say: Callable[[str], None]) -> SecurityModel:
    """Return the given model, or announce and return the default."""
    chosen = model or choose_model(None)
    if model is None:
        say(
            f"Security model: {chosen.name} (choose another with {named('security')}; "
            f"{named_command('security')} lists them)."
        )
    return chosen


def security_models() -> list[dict[str, JsonValue]]:
    """Return a row per model, as in `security --json`."""
    rows: list[dict[str, JsonValue]] = []
    for model in MODELS.values():
        engine = engine_of(model)
        reason = engine.availability(model)
        row: dict[str, JsonValue] = {
            "security": model.name,
            "engine": model.engine,
            "parties": model.parties,
            "adversary": model.tolerates,
            "available": reason is None,
            "reason": reason,
            "engine_version": engine.version(),
        }
        rows.append(row)
    return rows
