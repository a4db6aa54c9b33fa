"""The values that a text of JSON has, before anything is known of them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""Parsed JSON, or what becomes JSON. Who reads it checks what it is, most often by `documents.as_type`."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object of JSON: values by name."""


class JsonFields(dict[str, JsonValue]):
    """An object of JSON within a struct, whose fields somebody else checks later.

    A struct that carries a record domain or a policy names the field so. The reader of that domain or policy
    checks it, and says in its own words what is wrong.
    """
