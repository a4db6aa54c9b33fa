"""The walk: every message that a party sends in a computation, changed once, as a seed decides."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from scipy.stats import beta

from benchmarks.measure.samples import append, load_lines
from benchmarks.tampering.attack import (
    KINDS,
    Attack,
    Change,
    Kind,
    Message,
    Reaction,
    StockAttack,
    StockOperation,
    build_interposer,
)
from benchmarks.tampering.operations import TOO_LONG, Operation
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.threads import ContextPool

SEED = 20_261_122  # arbitrary, but fixed, so that a walk can be repeated

# A share's bytes in messages, with bits for security. Other models' shares have 8.
_SHARE_BYTES = {"sy-rep-ring": 13, "spdz2k": 14}
_WORD = 8  # bytes
_WORKERS = 3 * (os.cpu_count() or 1)  # parties that wait for ever need no processor
_CONFIDENCE = 0.95

Place = tuple[str, str, int]  # the model's title, the operation, and the party that tampers
Site = tuple[Place, Message, int]  # the place, the message, and how often it was changed before
Parties = dict[Place, Attack | StockAttack]


@dataclass(frozen=True)
class Attempt:
    """One change and its outcome.

    Attributes:
        security: The model's title.
        operation: The operation's name.
        tamperer: The number of the party that tampers.
        turn: How often the message was changed before.
        change: The change.
        outcome: The honest parties' reaction.
        noise: How often each value was opened.
    """

    security: str
    operation: str
    tamperer: int
    turn: int
    change: Change
    outcome: Reaction
    noise: dict[str, int] = field(default_factory=dict)

    @property
    def site(self) -> Site:
        """The key of the attempt in its walk."""
        return (self.security, self.operation, self.tamperer), self.change.message, self.turn


def change_of(
    model: SecurityModel, message: Message, rng: random.Random, kinds: Sequence[Kind] = KINDS
) -> Change:
    """Return a random change of a message. If shares fill the message, it begins where a share begins."""
    size = _SHARE_BYTES.get(model.name, _WORD)
    if message.length % size == 0:
        step = size
    elif message.length % _WORD == 0:
        step = _WORD
    else:
        step = 1
    where = step * rng.randrange(message.length // step)
    kind = rng.choice(kinds)
    number = rng.choice((1, 1 << 30, rng.getrandbits(63)))
    return Change(message, kind, where, number)


def laid_out(models: Sequence[SecurityModel], tried: Sequence[Operation], work: Path, built: Path) -> Parties:
    """Return the parties of a worker, ready to run."""
    parties: Parties = {}
    for model, operation in product(models, tried):
        if operation.program == TOO_LONG.get(model.name):
            continue
        for tamperer in range(model.parties):
            place = (model.title, operation.name, tamperer)
            directory = work / f"{model.title}-{operation.name}-{tamperer}"
            if isinstance(operation, StockOperation):
                parties[place] = StockAttack(model, operation, tamperer, built, directory)
            else:
                parties[place] = Attack(model, operation, tamperer, built, directory)
            parties[place].lay_out()
    return parties


def tamper(parties: Parties, site: Site) -> Attempt:
    """Change a message as its seed says."""
    place, message, turn = site
    attack = parties[place]
    rng = random.Random(repr((SEED, site)))
    change = change_of(attack.model, message, rng, attack.kinds)
    attacked = attack.run(change)
    model, operation, tamperer = place
    noise: dict[str, int] = {}
    if attack.operation.noise:
        noise = dict(Counter(map(str, attacked.opened)))
    return Attempt(model, operation, tamperer, turn, change, attacked.reaction, noise)


def sites(parties: Parties, turns: int) -> list[Site]:
    """Return every message in random order, `turns` times.

    Whenever a walk ends, all models have had about as many changes.
    """
    rng = random.Random(SEED)
    with ContextPool(_WORKERS) as pool:
        messages_of_each = pool.map(lambda attack: attack.messages(), parties.values())
        messages_by_place = dict(zip(parties, messages_of_each, strict=True))
    places_of_model = Counter(model for model, _, _ in messages_by_place)
    order = []
    for turn in range(turns):
        ranked = []
        for place, messages in messages_by_place.items():
            # A place's own generator, so that the order of its messages does not depend on other places.
            shuffled = random.Random(repr((SEED, (place, turn)))).sample(messages, len(messages))
            for rank, message in enumerate(shuffled):
                ranked.append((rank * places_of_model[place[0]], rng.random(), (place, message, turn)))
        order += [site for _, _, site in sorted(ranked)]
    return order


def go_on(
    models: Sequence[SecurityModel],
    *,
    tried: Sequence[Operation],
    work: Path,
    path: Path,
    turns: int,
    seconds: float,
    tell: Callable[[int, int], None],
) -> None:
    """Change the messages of which the file has no attempt yet, until the time is over.

    Args:
        models: The models.
        tried: The operations.
        work: An empty directory for the parties.
        path: The file of attempts.
        turns: How often each message is changed.
        seconds: The time.
        tell: A function that is called with the number of attempts so far and of all.
    """
    done = {attempt.site for attempt in load(path)}
    built = build_interposer(work)
    free = [laid_out(models, tried, work / str(worker), built) for worker in range(_WORKERS)]
    wanted = sites(free[0], turns)
    left = [site for site in wanted if site not in done]
    began = time.monotonic()

    def attempt(site: Site) -> Attempt:
        parties = free.pop()  # there are as many as workers
        try:
            return tamper(parties, site)
        finally:
            free.append(parties)

    pool = ContextPool(_WORKERS)
    try:
        for number, attempted in enumerate(pool.map(attempt, left), 1 + len(wanted) - len(left)):
            append(path, attempted)
            if time.monotonic() - began > seconds:
                break
            tell(number, len(wanted))
    finally:
        pool.shutdown(cancel_futures=True)


def load(path: Path) -> list[Attempt]:
    """Return the attempts so far."""
    return load_lines(path, Attempt, "what bench.tampering tries")


def most_wrong(tried: int, wrong: int) -> float:
    """Return a 95 % bound of the share of harmful changes (Clopper and Pearson 1934).

    Args:
        tried: The number of changes.
        wrong: The number of harmful changes among them.
    """
    if wrong >= tried:
        return 1.0
    return float(beta.ppf(_CONFIDENCE, wrong + 1, tried - wrong))
