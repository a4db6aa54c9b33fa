"""Lines that a host's process writes to the machine that started it: a line for each frame.

The first line is the process's `Hello`. Then it writes an `AnswerFrame` or an `ErrorFrame` for each request,
in the order of the requests, and an `EndFrame` whenever its party has ended. Both ends of a connection import
this module. The requests are in `messages.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta, Struct

from fairshares.harness.hosts.messages import PartyEnd
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.protocols.json_values import AnyJson, JsonObject

WIRE_VERSION = 25  # the version of requests and of frames; rises with each change of them

ErrorName = Annotated[str, Meta(max_length=256)]
"""The name of a class in `harness/errors.py`."""

ErrorText = Annotated[str, Meta(max_length=1 << 20)]
"""A sentence that says why a request was refused."""


class Role(StrEnum):
    """The roles of processes that serve a connection; the value is the module in `harness/hosts`."""

    AGENT = "agent"
    """Takes part in runs, for a coordinator."""

    SETUP = "setup"
    """Makes keys and policies, for the host's owner."""


@dataclass(frozen=True)
class Hello:
    """The first line of a host's process.

    Every version has this form, so that a difference of versions can be told. All else may differ.
    [test: tests/harness/hosts/test_connection.py]

    Attributes:
        role: The role of the process.
        version: The `WIRE_VERSION` of the code that it runs.
    """

    role: Role
    version: int = WIRE_VERSION

    def to_json(self) -> JsonObject:
        """Return the line's object."""
        return {self.role.value: self.version}

    @classmethod
    def read(cls, fields: JsonObject, wanted: Role) -> Self:
        """Return the first message of a process, of whatever version it is.

        Args:
            fields: The line's object.
            wanted: The role of the process that was to start. A line that names neither this role nor an
                agent counts as one of this role that states no version.

        Returns:
            The process's role, and its version. An early version states none, which counts as 0.
        """
        role = wanted
        if wanted not in fields and Role.AGENT in fields:
            role = Role.AGENT
        stated = fields.get(role)
        return cls(role, stated if type(stated) is int else 0)


_TAG = "said"


class HostFrame(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field=_TAG):
    """A line that a host's process writes after its `Hello`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of this kind of frames, as it is sent."""
        return str(cls.__struct_config__.tag)


class AnswerFrame(HostFrame, tag="answer", frozen=True, kw_only=True):
    """The answer to the oldest request that has none.

    Attributes:
        answer: The answer as it is sent. Whoever asked checks it by the type that the request names.
    """

    answer: AnyJson


class ErrorFrame(HostFrame, tag="error", frozen=True, kw_only=True):
    """The refusal of the oldest request that has no answer.

    Attributes:
        error: The class of the error.
        text: The sentence of the error.
    """

    error: ErrorName
    text: ErrorText


class EndFrame(HostFrame, tag="end", frozen=True, kw_only=True):
    """The end of the host's party, which no request is for.

    Attributes:
        end: How the run ended.
    """

    end: PartyEnd


def read_frame(fields: JsonObject, refusal: Refusal) -> AnswerFrame | ErrorFrame | EndFrame:
    """Return the frame that a line's object is, or raise the refusal's error.

    Guarantees: nothing is converted, and every field is within its bounds.
    [test: tests/harness/hosts/test_connection.py]
    """
    name = fields.get(_TAG)
    if name == ErrorFrame.name():
        return as_type(ErrorFrame, fields, refusal)
    if name == EndFrame.name():
        return as_type(EndFrame, fields, refusal)
    return as_type(AnswerFrame, fields, refusal)  # which refuses every other name
