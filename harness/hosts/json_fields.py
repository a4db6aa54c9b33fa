"""Fields of JSON that another module checks, as structs and dataclasses have them."""

from typing import TYPE_CHECKING

from protocols.json_values import JsonValue

if TYPE_CHECKING:
    Fields = dict[str, JsonValue]
else:  # msgspec knows no type that contains itself, and `strict_json` has checked what JSON may hold
    Fields = dict
"""An object of JSON, such as a domain or clients' terms."""
