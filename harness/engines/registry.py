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
OF_ANY_NUMBER = "semi2k"
FALLBACK = "mpyc"


@cache
def engines() -> dict[str, Engine]:
    """Return every engine by name."""
    known: tuple[Engine, ...] = (MpSpdzEngine(), EmbeddedEngine())
    return {engine.name: engine for engine in known}


def engine_of(model: SecurityModel) -> Engine:
    """Return the model's engine."""
    return engines()[model.engine]


def choose_model(name: str | None, parties: int | None = None) -> SecurityModel:
    """Return the named model, else the usual one, of so many parties, by default of its usual number.

    The usual model is the first of `ring`, `semi2k` and `mpyc` that takes so many parties and can run here.
    If none of these can run here, it is the last that takes so many.

    Raises OptionError.
    """
    if name is not None:
        return get_model(name, parties)
    usual = [get_model(PREFERRED), get_model(FALLBACK)]
    if parties is not None:
        of_any_number = get_model(OF_ANY_NUMBER)
        candidates = (usual[0], of_any_number, usual[1])
        usual = [model.with_parties(parties) for model in candidates if model.takes(parties)]
        if not usual:
            return of_any_number.with_parties(parties)  # raises with the numbers that it takes
    for model in usual:
        if engine_of(model).availability(model) is None:
            return model
    return usual[-1]


def chosen_model(
    model: SecurityModel | None, say: Callable[[str], None], parties: int | None = None
) -> SecurityModel:
    """Return the given model, or announce and return the default one, of so many parties if that is said."""
    if model is not None:
        return model
    chosen = choose_model(None, parties)
    say(
        f"Security model: {chosen.title} (choose another with {named('security')}; "
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
