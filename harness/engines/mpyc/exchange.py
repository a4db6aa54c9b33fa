"""Messages of the embedded engine's parties: MPyC's protocols, on field elements of exact length.

MPyC unpickles what peers send, so a peer can run any code. These functions stand in place of all that send or
receive: the protocols are MPyC's (`mpyc/runtime.py`), the messages are not. They take one vector or array of
our field, as all programs of the portable subset have. All else is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from fairshares.harness.engines.mpyc.connection import PeerConnection, Peers, not_elements
from fairshares.harness.engines.mpyc.elements import ELEMENT_BYTES, decode, encode
from fairshares.harness.engines.mpyc.interfaces import (
    BigIntegers,
    Field,
    FieldArray,
    Runtime,
    SecureArray,
    Splitting,
)
from fairshares.harness.errors import FairSharesError, PartyFailedError, UnsupportedFeature
from fairshares.harness.inputs.rings import FIELD

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
Parameters = ParamSpec("Parameters")


class NoPickle:
    """Stands in place of the module `pickle` where MPyC has it: nothing is pickled, nothing unpickled."""

    def dumps(self, *_: object) -> NoReturn:
        """Raise UnsupportedFeature."""
        self.loads()

    def loads(self, *_: object) -> NoReturn:
        """Raise UnsupportedFeature."""
        raise UnsupportedFeature(
            "MPyC was about to pickle or unpickle a message, which FairShares never does."
        )


class Exchange:
    """Sends and receives for MPyC's runtime of one party.

    Guarantees: what a peer sends becomes as many field elements as expected, or ends the run. Nothing of it
    is unpickled.  [test: tests/commands/test_mpyc_attacks.py]
    """

    def __init__(self, mpc: Runtime, peers: Peers) -> None:
        """Put these functions in place of MPyC's, which is imported."""
        from mpyc import asyncoro, runtime, thresha

        self._mpc = mpc
        self._peers = peers
        self._thresha: Splitting = thresha
        runtime.pickle = NoPickle()
        asyncoro.MessageExchanger = self._connection
        methods = vars(self._mpc)
        methods["_distribute"] = _coroutine(asyncoro, self._distribute)
        methods["output"] = _coroutine(asyncoro, self._output)
        methods["_reshare"] = _coroutine(asyncoro, self._reshare)
        methods["transfer"] = _coroutine(asyncoro, self._transfer)
        self._mpc._loop.set_exception_handler(self._note_failure)

    def run(self, awaited: Awaitable[T]) -> T:
        """Run the event loop until this is done; return its result.

        Raises the error that ended the run, whichever step or connection had it.
        """
        if self._peers.failure is None:
            try:
                return self._mpc.run(awaited)
            except RuntimeError:  # the loop was stopped
                if self._peers.failure is None:
                    raise
        assert self._peers.failure is not None
        raise _as_sentence(self._peers.failure) from None

    def end(self) -> None:
        """Wait until all parties have computed all, and close the connections."""
        self._peers.ending = True
        self.run(self._mpc.shutdown())

    def _connection(self, runtime: Runtime, peer_pid: int | None = None) -> PeerConnection:
        return PeerConnection(runtime, self._peers, peer_pid)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:  # noqa: ARG002
        """Keep the error of a step that failed; MPyC would print it, with what it computed on.

        What a socket had is not a step's: strangers may connect, and leave.
        """
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, OSError):
            self._peers.fail(error)

    async def _distribute(self, inputs: Sequence[SecureArray], senders: list[int]) -> list[list[FieldArray]]:
        """Share arrays that senders have; `inputs` is a list of this party's, or of its shape."""
        if len(inputs) != 1:
            _refuse("input of more than one array")
        own = inputs[0]
        mpc = self._mpc
        array = type(own)
        shape = own.shape
        field = _field_of(array.sectype.field)
        await mpc.returnType((array, shape), len(senders), 1)
        awaited: list[asyncio.Future[bytes] | bytes | BigIntegers] = []
        for sender in senders:
            if sender != mpc.pid:
                awaited.append(self._receive(sender, own.size))
                continue
            secrets = (await mpc.gather(own)).reshape(-1)
            for party, share in enumerate(self._split(field, secrets)):
                if party == mpc.pid:
                    awaited.append(share)
                else:
                    self._send(party, share)
        gathered = await mpc.gather(awaited)
        received = [
            _decode(sender, share, own.size) if isinstance(share, bytes) else share
            for sender, share in zip(senders, gathered, strict=True)
        ]
        return [[field.array(share, check=False).reshape(shape)] for share in received]

    async def _output(self, x: SecureArray | FieldArray, *, threshold: int | None = None) -> FieldArray:
        """Open an array to all parties: each sends its shares to the next ones."""
        conversion = getattr(type(x), "_output_conversion", None)
        mpc = self._mpc
        await mpc.returnType(asyncio.Future)
        shares = await self._shares_of(x)
        field = _field_of(shares.field)
        needed = mpc.threshold if threshold is None else threshold
        parties = len(mpc.parties)
        own = shares.value.reshape(-1)
        message = encode(own) if needed else b""
        for distance in range(1, needed + 1):
            self._send_message((mpc.pid + distance) % parties, message)
        senders = [(mpc.pid - distance) % parties for distance in range(needed, 0, -1)]
        messages = await mpc.gather([self._receive(sender, own.size) for sender in senders])
        points = self._points(senders, messages, own.size)
        opened = self._thresha.np_recombine(field, [*points, (mpc.pid + 1, own)]).reshape(shares.shape)
        return opened if conversion is None else conversion(opened)

    async def _reshare(self, x: SecureArray | FieldArray) -> FieldArray:
        """Turn shares of a product into new ones of the program's threshold [GRR98]."""
        mpc = self._mpc
        await mpc.returnType((type(x), x.shape) if isinstance(x, mpc.SecureObject) else asyncio.Future)
        shares = await self._shares_of(x)
        needed = 2 * mpc.threshold + 1
        parties = len(mpc.parties)
        if parties == 1:
            return shares
        field = _field_of(shares.field)
        own = shares.value.reshape(-1)
        first = mpc._program_counter[0] % parties
        senders = [(first + i) % parties for i in range(needed)]
        points: list[tuple[int, BigIntegers]] = []
        if mpc.pid in senders:
            for party, share in enumerate(self._split(field, own)):
                if party == mpc.pid:
                    points.append((mpc.pid + 1, share))
                else:
                    self._send(party, share)
        others = [sender for sender in senders if sender != mpc.pid]
        messages = await mpc.gather([self._receive(sender, own.size) for sender in others])
        points = [*self._points(others, messages, own.size), *points]
        return self._thresha.np_recombine(field, points).reshape(shares.shape)

    async def _transfer(self, word: int | str) -> None:
        """Wait for all parties, as MPyC does before it closes connections; the messages are empty."""
        mpc = self._mpc
        if word != mpc.pid:
            _refuse("transfer of Python objects")
        await mpc.returnType(asyncio.Future)
        others = [peer.pid for peer in mpc.parties if peer.pid != mpc.pid]
        for party in others:
            self._send_message(party, b"")
        await mpc.gather([self._receive(party, 0) for party in others])

    async def _shares_of(self, x: SecureArray | FieldArray) -> FieldArray:
        """Return an array of shares, when it is computed; `x` is secret-shared, or such an array itself."""
        return await self._mpc.gather(x) if self._is_secret(x) else x

    def _is_secret(self, x: SecureArray | FieldArray) -> "TypeIs[SecureArray]":
        return isinstance(x, self._mpc.SecureObject)

    def _split(self, field: Field, secrets: FieldArray | BigIntegers) -> Sequence[BigIntegers]:
        return self._thresha.np_random_split(field, secrets, self._mpc.threshold, len(self._mpc.parties))

    def _send(self, party: int, elements: BigIntegers) -> None:
        self._send_message(party, encode(elements))

    def _send_message(self, party: int, message: bytes) -> None:
        self._mpc.parties[party].protocol.send(self._mpc._program_counter[0], message)

    def _receive(self, party: int, count: int) -> "asyncio.Future[bytes] | bytes":
        step = self._mpc._program_counter[0]
        return self._mpc.parties[party].protocol.receive(step, count * ELEMENT_BYTES)

    def _points(self, senders: list[int], messages: list[bytes], count: int) -> list[tuple[int, BigIntegers]]:
        return [
            (sender + 1, _decode(sender, message, count))
            for sender, message in zip(senders, messages, strict=True)
        ]


def _decode(sender: int, message: bytes, count: int) -> BigIntegers:
    try:
        return decode(message, count)
    except ValueError as error:
        raise not_elements(sender, error) from None


def _field_of(field: Field) -> Field:
    if field.modulus != FIELD.modulus:
        _refuse("values of another field")
    return field


def _refuse(what: str) -> NoReturn:
    raise UnsupportedFeature(f"{what} is nothing that parties of the embedded engine send each other.")


def _coroutine(
    asyncoro: ModuleType, method: Callable[Parameters, Awaitable[T]]
) -> Callable[Parameters, Awaitable[T]]:
    """Return a coroutine of MPyC's."""

    async def body(*args: Parameters.args, **kwargs: Parameters.kwargs) -> T:
        return await method(*args, **kwargs)

    body.__annotations__.clear()  # MPyC would take the last for the type of what it returns
    coroutine: Callable[Parameters, Awaitable[T]] = asyncoro.mpc_coro(body)
    return coroutine


def _as_sentence(error: BaseException) -> FairSharesError:
    """Return an error whose message can be shown: a step's own error may quote what it computed on."""
    if isinstance(error, FairSharesError):
        return error
    return PartyFailedError(
        f"A step of the computation ended with {type(error).__name__}: a party sent shares of no value, or "
        "this is a fault of FairShares."
    )
