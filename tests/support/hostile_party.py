"""Parties of the embedded engine for attacks: one that sends pickles, and ones that would unpickle them.

Their process is the production party's, with another `run_party` in the engine's place; a file says what it
does. Each pickle makes a directory at whoever unpickles it.
"""

import json
import os
import pickle
import struct
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from fairshares.harness.engines.mpyc import party as honest
from fairshares.harness.engines.mpyc.connection import _UPKEEP, PeerConnection, most_unasked
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.mpyc.exchange import Exchange
from fairshares.harness.engines.mpyc.party import run_party as honest_run_party
from fairshares.harness.engines.mpyc.party_runtime import PartyRuntime
from fairshares.harness.engines.parties import main as production
from fairshares.harness.engines.parties.config import Embedded, PartyConfig
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup
from fairshares.harness.engines.parties.working_directory import DATA
from fairshares.harness.party_reports import Costs, line_of

HOSTILE = 0
PLAN = "plan.json"  # of what a party does, in its directory
# Where a message is sent: by MPyC's function, and by ours.
KINDS = {"input": "_distribute", "output": "output", "reshare": "_reshare", "transfer": "transfer"}


class Command:
    """An object whose pickle runs a command at whoever unpickles it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.directory,)


def pickled_command(directory: str) -> bytes:
    """Return a pickle that makes a directory."""
    return pickle.dumps(Command(directory))


class HostileEngine(EmbeddedEngine):
    """Runs party 0 as an attacker.

    Args:
        attack: What it sends, and when; see `run_party`.
        made: The directory that its pickles make.
        unpickling: Whether the other parties marshal as MPyC does by itself.
    """

    def __init__(self, attack: str, made: Path, unpickling: bool = False) -> None:
        self._plan = {"attack": attack, "made": str(made), "unpickling": unpickling}
        super().__init__(self._laid_out)

    def _laid_out(self, setup: PartySetup, directory: Path) -> LocalParty:
        party = setup.config.party
        if party != HOSTILE and not self._plan["unpickling"]:
            return LocalParty(setup, directory)
        plan = self._plan if party == HOSTILE else {**self._plan, "attack": ""}
        return HostileParty(plan, setup, directory)


class HostileParty(LocalParty):
    """A party whose process does what a plan says."""

    def __init__(self, plan: dict[str, Any], setup: PartySetup, directory: Path) -> None:
        super().__init__(setup, directory)
        (directory / PLAN).write_text(json.dumps(plan))

    def _module(self) -> str:
        return __name__


def main() -> int:
    """Run the party of the current directory by its plan."""
    plan = json.loads(Path(PLAN).read_text())
    vars(honest)["run_party"] = partial(run_party, plan)
    return production.main()


def run_party(plan: dict[str, Any], config: PartyConfig, engine: Embedded) -> int:
    """Run a party that attacks, or one that marshals as MPyC does by itself.

    An attack is a kind of message that is replaced by a pickle; with `padded` before it, by one of the length
    that is expected, and with `ones`, by bytes that are no field elements. Or it is what replaces the first
    message: a `pickle`, the number of `another` party or of `nobody`. Or it is `huge`, a message that is
    announced with 4 GiB; `flood`, empty messages that nobody asks for; `two` messages for one step; or
    `leave`, in the middle.
    """
    if plan["unpickling"]:
        return _run_unpickling(plan, config, engine)
    attack = plan["attack"]
    bomb = pickled_command(plan["made"])

    class HostileExchange(Exchange):
        def _send_message(self, party: int, message: bytes) -> None:
            callers = {sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name}
            word, _, kind = attack.rpartition(" ")
            function = KINDS.get(kind, "nothing")
            if callers & {function, f"_{function}"}:
                instead = {"": bomb, "padded": bomb.ljust(len(message)), "ones": b"\xff" * len(message)}
                message = instead[word]
            if attack == "leave" and "_output" in callers:
                os._exit(0)
            super()._send_message(party, message)

        def _connection(self, runtime: Any, peer_pid: int | None = None) -> PeerConnection:
            return HostileConnection(runtime, self._peers, peer_pid)

    class HostileConnection(PeerConnection):
        def connection_made(self, transport: Any) -> None:
            first = {
                "pickle": bomb,
                "another": (1).to_bytes(2, "little") + bytes(64),
                "nobody": (9).to_bytes(2, "little") + bytes(64),
            }
            if attack in first and self.peer_pid == 2:
                self.transport = transport
                transport.write(first[attack])
                self.runtime.set_protocol(self.peer_pid, self)
                return
            super().connection_made(transport)
            if attack == "huge":
                self.transport.write((5).to_bytes(8, "little") + b"\xff" * 4 + bytes(1 << 16))
            elif attack == "flood":
                most = most_unasked() // _UPKEEP
                self.transport.write(b"".join(struct.pack("<qI", step, 0) for step in range(most + 1)))
            elif attack == "two":
                self.send(5, b"")
                self.send(5, b"")

    vars(honest)["Exchange"] = HostileExchange
    return honest_run_party(config, engine)


def _run_unpickling(plan: dict[str, Any], config: PartyConfig, engine: Embedded) -> int:
    honest._lay_out_certificates(config.party, len(config.addresses))
    mpc = honest._load_mpyc(config, engine)
    import mpyc.runtime

    mpyc.runtime.pickle = HostilePickle(plan) if plan["attack"] else pickle
    mpc.run(mpc.start())
    started = time.perf_counter()
    honest.execute(Path(engine.program), engine.arguments, PartyRuntime(mpc, Path(DATA)))
    mpc.run(mpc.shutdown())
    print(line_of(Costs(seconds=time.perf_counter() - started, sent_bytes=0)), flush=True)
    return 0


class HostilePickle:
    """Pickles a command in place of one kind of message."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._function = KINDS[plan["attack"]]
        self._bomb = pickled_command(plan["made"])
        self.loads = pickle.loads

    def dumps(self, message: Any) -> bytes:
        """Return the message's pickle, or the command's."""
        if sys._getframe(1).f_code.co_name == self._function:
            return self._bomb
        return pickle.dumps(message)


if __name__ == "__main__":
    sys.exit(main())
