"""What parties of the embedded engine do not send, and how a step that fails ends a run."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fairshares.harness.engines.mpyc.connection import Peers
from fairshares.harness.engines.mpyc.exchange import Exchange, NoPickle
from fairshares.harness.errors import FairSharesError, LostPeerError, PartyFailedError, UnsupportedFeature
from tests.support.mpyc_peers import Loop

# A program's text runs with one party; it prints the error that it ended with.
ALONE = """
import sys
text = sys.argv[1]  # before MPyC's options take its place
from fairshares.harness.engines.mpyc.party import _load_mpyc
from fairshares.harness.engines.mpyc.connection import Peers
from fairshares.harness.engines.mpyc.exchange import Exchange
from fairshares.harness.errors import FairSharesError
from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.engines.parties.config import Embedded, PartyConfig
engine = Embedded(program="none", arguments=(), threshold=0, security_bits=61)
told = PartyConfig(party=0, common_names=("P0",), engine=engine, addresses=(("127.0.0.1", 1111),))
mpc = _load_mpyc(told, engine)
import mpyc.runtime
from typing import Any
import numpy as np
exchange = Exchange(mpc, Peers(mpc._loop, {}))
ours = mpc.SecInt(64, p=FIELD.modulus)
others = mpc.SecInt(80)
try:
    exec(text)
except FairSharesError as error:
    print(type(error).__name__, error)
"""


def said(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", ALONE, text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpyc.runtime.pickle.loads(b'x')", "was about to pickle or unpickle a message"),
        ("mpyc.runtime.pickle.dumps(7)", "was about to pickle or unpickle a message"),
        ("exchange.run(mpc.transfer('words'))", "transfer of Python objects is nothing that parties"),
        ("mpc.input(others.array(np.array([7])), senders=0)", "values of another field is nothing that"),
        ("mpc.input([ours.array(np.array([7]))] * 2, senders=0)", "input of more than one array is nothing"),
    ],
)
def test_nothing_but_elements_of_the_field_is_sent(text: str, expected: str) -> None:
    assert said(text).startswith("UnsupportedFeature ") and expected in said(text)


def test_what_is_sent_is_computed_as_before() -> None:
    text = """
x = mpc.input(ours.array(np.array([3, -4], dtype=object)), senders=0)
print(exchange.run(mpc.output(x * x)).tolist(), exchange.run(mpc.output(x < 0)).tolist())
"""
    assert said(text).startswith("[9, 16] [0, 1]\n")


class Failing:
    """Stands for MPyC's runtime whose loop stops, since a step or a connection failed."""

    def __init__(self, peers: Peers, error: BaseException | None) -> None:
        self.peers = peers
        self.error = error

    def run(self, awaited: object) -> None:
        if self.error is not None:
            self.peers.fail(self.error)
        raise RuntimeError("Event loop stopped before Future completed.")


def exchange_of(error: BaseException | None) -> Exchange:
    exchange = object.__new__(Exchange)
    exchange._peers = Peers(Loop(), {})  # type: ignore[arg-type]
    runtime: Any = Failing(exchange._peers, error)
    exchange._mpc = runtime
    return exchange


def test_the_first_failure_is_raised_whatever_is_run_next() -> None:
    first = LostPeerError("Connection closed by party 1 before the computation ended.")
    exchange = exchange_of(first)
    for _ in range(2):
        with pytest.raises(LostPeerError) as raised:
            exchange.run(SimpleNamespace())
        assert raised.value is first


def test_a_steps_own_error_is_said_without_what_it_computed_on() -> None:
    with pytest.raises(PartyFailedError) as raised:
        exchange_of(ZeroDivisionError("5ecre7")).run(SimpleNamespace())
    assert "ended with ZeroDivisionError" in str(raised.value) and "5ecre7" not in str(raised.value)


def test_a_loop_that_stops_by_itself_is_no_partys_fault() -> None:
    with pytest.raises(RuntimeError, match="Event loop stopped"):
        exchange_of(None).run(SimpleNamespace())


def test_a_step_is_blamed_and_a_socket_is_not() -> None:
    exchange = exchange_of(None)
    loop: Any = Loop()
    exchange._note_failure(loop, {"message": "no error"})
    exchange._note_failure(loop, {"exception": ConnectionResetError()})
    assert exchange._peers.failure is None
    exchange._note_failure(loop, {"exception": (error := ValueError())})
    exchange._note_failure(loop, {"exception": KeyError()})
    assert exchange._peers.failure is error


def test_nothing_is_pickled() -> None:
    assert issubclass(UnsupportedFeature, FairSharesError)
    for function in (NoPickle().dumps, NoPickle().loads):
        with pytest.raises(UnsupportedFeature):
            function(b"")
