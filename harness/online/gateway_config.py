"""The facts that a party's gateway is told before clients come."""

from typing import Annotated

from msgspec import Meta, Struct

from fairshares.harness.bounds import Port, Seconds, Size
from fairshares.protocols.json_values import JsonFields


class GatewayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a party's gateway serves the clients of one run; `ClientInputs.gateway` makes it.

    Attributes:
        host: The address at which it listens.
        port: The port at which it listens.
        machine_port: The port at which the party's virtual machine waits for the gateway.
        uploads: The number of values of each client.
        certificates: Each client's certificate (PEM).
        terms: The terms with which clients have to agree.
        seconds: The time in which clients may come, from the start of the party's process on.
        seconds_to_send: The time for the values, once the masks are there.
        most_failures: How many clients may break off after they could detect a cheating party.
    """

    host: str
    port: Port
    machine_port: Port
    uploads: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)]
    certificates: tuple[str, ...]
    terms: JsonFields
    seconds: Seconds
    seconds_to_send: Seconds
    most_failures: Size
