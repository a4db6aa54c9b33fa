"""The values that a text of JSON has, before anything is known of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""Parsed JSON, or what becomes JSON. Who reads it checks what it is, most often by `documents.as_type`."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object of JSON: values by name."""

if TYPE_CHECKING:
    JsonFields: TypeAlias = dict[str, JsonValue]
    AnyJson: TypeAlias = JsonValue
else:  # msgspec knows no type that contains itself, and `strict_json` has checked what JSON may hold
    JsonFields = dict
    AnyJson = bool | int | float | str | list | dict | None
"""Types of a struct's fields that somebody else checks later: an object of JSON, and any value of JSON.

A struct that carries a record domain, a policy or clients' terms has a field of `JsonFields`. Their reader
checks them, and says in its own words what is wrong. A host's answer to a request is an `AnyJson` until
whoever asked checks it.
"""
