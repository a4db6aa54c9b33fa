"""What a host's process writes to the machine that started it, line by line.

The first line is its `Hello`. Both ends of a connection import this module. What the other end asks for is in
`messages.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from fairshares.protocols.json_values import JsonObject

VERSION = 20  # of requests and of what follows a `Hello`; rises with each change of them


class Role(StrEnum):
    """The roles of processes that serve a connection; the value is the module in `harness/hosts`."""

    AGENT = "agent"
    """Takes part in runs, for a coordinator."""

    SETUP = "setup"
    """Makes keys and policies, for the host's owner."""


@dataclass(frozen=True)
class Hello:
    """The first line of a host's process.

    Its form is that of every version, so that a difference of versions can be told. All else may differ.
    [test: tests/harness/hosts/test_connection.py]

    Attributes:
        role: The role of the process.
        version: The `VERSION` of the code that it runs.
    """

    role: Role
    version: int = VERSION

    def to_json(self) -> dict[str, int]:
        """Return the line's object."""
        return {self.role.value: self.version}

    @classmethod
    def read(cls, fields: JsonObject, wanted: Role) -> Self:
        """Return what a process says at first, of whatever version it is.

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
