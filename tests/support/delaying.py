"""Relays connections between addresses with a delay, as `delaying DELAY_S ADDRESS PORT:ADDRESS:PORT...`.

It listens at the first address on each first port, and relays to the address and port after it, as the relay
of emulated networks does. It says `ready` in a line, and ends with its input.
"""

import asyncio
import sys
from functools import partial

from benchmarks.emulation.relay import Link, carry, punctual_loop

_BYTES_PER_S = 1e9  # far more than is sent


async def _main(delay_s: str, own: str, *ways: str) -> None:
    for way in ways:
        own_port, address, port = way.split(":")
        there = Link(float(delay_s), _BYTES_PER_S)
        back = Link(float(delay_s), _BYTES_PER_S)
        await asyncio.start_server(partial(carry, there, back, (address, int(port))), own, int(own_port))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(_main(*sys.argv[1:]))
