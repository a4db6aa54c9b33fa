"""Relays connections with a delay in each direction, as `delaying.py DELAY_S ADDRESS PORT:ADDRESS:PORT...`.

It listens at the first address on each first port, and relays to the address and port after it. It says
`ready` in a line, and ends with its input.
"""

import asyncio
import contextlib
import sys
from functools import partial


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
    """Pass on what comes from one side, each piece so long after it came, and then the side's end."""
    now = asyncio.get_running_loop().time
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)

    async def take() -> None:
        piece = b"-"
        while piece:
            try:
                piece = await source.read(1 << 16)
            except OSError:
                piece = b""
            await pieces.put((now() + delay_s, piece))

    async def give() -> None:
        piece = b"-"
        while piece:
            due, piece = await pieces.get()
            await asyncio.sleep(due - now())
            with contextlib.suppress(OSError):
                target.write(piece)
                await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()

    await asyncio.gather(take(), give())


async def _reached(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect once somebody listens there; who was let in would take a lost connection for a lost party."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return await asyncio.open_connection(address, port)
        await asyncio.sleep(2e-3)


async def _relay(
    delay_s: float, address: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    there, back = await _reached(address, port)
    try:
        await asyncio.gather(_carry(reader, back, delay_s), _carry(there, writer, delay_s))
    finally:
        writer.close()
        back.close()


async def _main(delay_s: str, own: str, *ways: str) -> None:
    for way in ways:
        port, address, there = way.split(":")
        await asyncio.start_server(partial(_relay, float(delay_s), address, int(there)), own, int(port))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
