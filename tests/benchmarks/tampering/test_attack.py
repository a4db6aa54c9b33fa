"""Messages are changed, each in the way that was asked for; active models withstand it, others do not."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.tampering import attack as runs
from benchmarks.tampering.attack import (
    STOCK,
    Attack,
    AttackedRun,
    Change,
    Files,
    Kind,
    Message,
    Reaction,
    Stage,
    StockAttack,
    StockOperation,
    build_interposer,
    changed,
)
from benchmarks.tampering.operations import (
    NOISE,
    OPERATIONS,
    PROGRAMS,
    SIGNED_PROGRAMS,
    SYMMETRIC_PROGRAMS,
    Operation,
)
from benchmarks.tampering.walk import laid_out, sites, tamper
from fairshares.harness.engines.parties.working_directory import LOG
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.security_models import MODELS
from fairshares.protocols.circuits.coins import NoiseFamily
from tests.support.command import processes_below

NOTICED = {Reaction.ABORTED, Reaction.OPENED, Reaction.SHIFTED}
WITHSTAND = [name for name, model in MODELS.items() if model.tolerates == "active"]
MASKED_BYTES = 5 * 8  # of the four ANDs' lanes and those of the tree, when they become integers
LENGTH_BYTES = 4  # before each message goes one of these, with its length

EACH_PROGRAM = (*SIGNED_PROGRAMS, *SYMMETRIC_PROGRAMS)
ALL = {operation.name: operation for operation in (*OPERATIONS, *EACH_PROGRAM)} | {
    f"noise {family.value}": NOISE[family][0] for family in NoiseFamily
}
QUICK = [
    operation
    for operation in EACH_PROGRAM
    if operation.program in ("pi_rw", "pi_rw_slots", "pi_cap", "pi_rounds")
]

Make = Callable[[str, str, int], Attack]

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler cc is there")


def by_model(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.mpspdz(name)) for name in names]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Lay out parties of a model, for an operation, one of which tampers."""
    built = build_interposer(tmp_path)

    def attack(model: str, operation: str, tamperer: int) -> Attack:
        made = Attack(MODELS[model], ALL[operation], tamperer, built, tmp_path / operation)
        made.lay_out()
        return made

    yield attack
    assert not processes_below(tmp_path)


def payloads(attack: Attack) -> list[Message]:
    return [message for message in attack.messages() if message.length > LENGTH_BYTES]


@pytest.mark.parametrize(
    ("codes", "first", "second", "outcome"),
    [
        ((0, 0, 1), "right", "right", Reaction.RIGHT),
        ((0, 1, 0), "right", "", Reaction.OPENED),
        ((1, None, 0), "right", "right", Reaction.OPENED),
        ((1, None, 0), "", "", Reaction.ABORTED),
        ((0, 0, 0), "other", "other", Reaction.WRONG),
        ((0, 0, 0), "right", "other", Reaction.WRONG),
        ((0, 1, 0), "other", "", Reaction.WRONG),
        ((0, 1, 0), "", "right", Reaction.WRONG),
        ((1, 1, 0), "", "other", Reaction.SHIFTED),
        ((1, None, 0), "right", "other", Reaction.SHIFTED),
    ],
)
def test_one_honest_party_is_enough_for_a_wrong_result(
    codes: Sequence[int | None], first: str, second: str, outcome: Reaction, tmp_path: Path
) -> None:
    """Whatever the other one took, or saw; what the third opened, which tampers, does not count."""
    attack = Attack(MODELS["ps-rep-ring"], ALL["input"], 2, tmp_path, tmp_path / "parties")
    right = attack.operation.right
    lines = {"right": f"OUT opened {list(right)}", "other": f"OUT opened {[*right[:-1], 7]}", "": ""}
    for party, opened in enumerate((first, second, "other")):
        (tmp_path / "parties" / f"party-{party}" / LOG).write_text(f"a line\n{lines[opened]}\n")
    assert attack._outcome(codes).reaction is outcome


@pytest.mark.parametrize("operation", [operation.name for operation in OPERATIONS])
@pytest.mark.parametrize(
    "model", by_model([name for name, candidate in MODELS.items() if candidate.virtual_machine])
)
def test_untouched_parties_are_right(model: str, operation: str, make: Make) -> None:
    """Else everything would be an abort."""
    assert make(model, operation, 0).messages()


@pytest.mark.parametrize("operation", [operation.name for operation in EACH_PROGRAM])
@pytest.mark.mpspdz("ring")
def test_two_honest_parties_alone_make_what_a_program_opens(operation: str, make: Make) -> None:
    """By `reference`, whichever party has no input. A walk checks that in each model before it begins."""
    assert make("ring", operation, 0).messages()


def test_all_programs_are_tampered_with() -> None:
    """`StockAttack` runs π_PREPROCESS before each run of the program that takes its noise."""
    for family in NoiseFamily:
        tried = {operation.program for operation in (*PROGRAMS[family], *STOCK[family])} | {"pi_preprocess"}
        if family is NoiseFamily.SYMMETRIC:
            tried |= {"pi_sum", "pi_rounds"}  # of noise that has no family
        assert tried == set(PROTOCOLS)


@pytest.mark.parametrize(("checked", "outcome"), [(False, Reaction.SHIFTED), (True, Reaction.ABORTED)])
@pytest.mark.mpspdz("rep4-ring")
def test_bits_that_become_integers_are_checked_by_a_check_point_alone(
    checked: bool, outcome: Reaction, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One honest party is sent another masked bit than the others, and opens a wrong value without the check.

    MP-SPDZ's `POpen` (`Processor/Processor.hpp`, line 469) checks openings of integers. Openings of bits are
    checked by `Processor::check` (line 179) only, and last. So the honest party A computes c' + (1 - 2c') r,
    and the hash that it sends of that, or of its share, is one of two. Whoever tampered learns the bit r. For
    k bits there are 2^k hashes. The run ends afterwards. Mend: check openings of bits in `POpen`, and first
    in `Processor::check`.
    """
    text = (runs.PROGRAMS / "and.mpc").read_text()
    assert text.count("check_point()\n") == 1
    (tmp_path / "and.mpc").write_text(text if checked else text.replace("check_point()\n", ""))
    monkeypatch.setattr(runs, "PROGRAMS", tmp_path)
    attack = make("rep4-ring", "and", 3)
    (masked,) = [message for message in payloads(attack) if message.length == MASKED_BYTES]
    assert attack.run(Change(masked, Kind.SHIFT, 0, 1)).reaction is outcome


@pytest.mark.parametrize(
    "operation", ["opening", "pi_rw split", "pi_rounds distributed", "noise signed", "noise symmetric"]
)
@pytest.mark.mpspdz("ring")
def test_a_passive_model_takes_what_it_is_sent(operation: str, make: Make) -> None:
    """Who changes an opened share there shifts what an honest party takes: the test can fail."""
    attack = make("ring", operation, 2)
    changes = [Change(message, Kind.SHIFT, 0, 1 << 20) for message in payloads(attack)]
    assert Reaction.WRONG in (attack.run(change).reaction for change in changes)


@pytest.mark.mpspdz("sy-rep-ring")
def test_the_known_hole_is_found(make: Make) -> None:
    """A product's share, changed wherever the party has it, makes a wrong result that the others take.

    `zero_check` (`Protocols/SpdzWiseRing.hpp`, lines 18 to 53) opens t plus a mask, and XORs the opened bits
    with new bits (line 31), all zero, in place of the mask's. It then checks that the bits' product is 0
    (line 50): some bit is 0, not all. So it fails with probability 2^-104, whatever t is. Mend: XOR with the
    mask's bits, and check that the product of the complements is 1.

    Two more defects of this machine remain then. `buffer_bits` (`Protocols/Spdz2kPrep.hpp`, lines 57 to 74)
    opens the sum of r b (1 - b) modulo 2^64 and compares it with 0. For b = 2^63 a product is r 2^63, which
    is 0 for each even r. Mend: take r of 104 bits, as shares are, and compare modulo 2^104.
    `test_check_before_opening.py` has the other one.
    """
    attack = make("sy-rep-ring", "multiplication", 2)
    share = 13  # bytes: 64 bits, and 40 for security; four products and their MACs are in a message
    products = [message for message in payloads(attack) if message.length == 8 * share]
    tried = (
        attack.run(Change(message, Kind.SHIFT_ALL, share * i, 1 << 40)).reaction
        for message in products
        for i in range(8)
    )
    assert Reaction.WRONG in tried


# Opens the bits of two parties together, as noise is made of them.
ENTERED = """from types import SimpleNamespace

from fairshares.protocols.circuits.noise import xor_of_inputs

_, first, second = program.args
source = sbitvec.get_type


class Two:
    @staticmethod
    def get_type(width):
        columns = source(width)
        return SimpleNamespace(get_input_from=lambda i, size: columns.get_input_from(parties[i], size=size))


parties = (int(first), int(second))
bits = xor_of_inputs(sint, Two, 2, 4, 8)
check_point()
print_ln("OUT opened %s", sint.concat([sint(bit) for bit in bits]).reveal())
"""


@pytest.mark.mpspdz("malicious-shamir")
def test_a_sharing_of_another_degree_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A party of `malicious-shamir` sends one other party another share of a bit than goes with the rest.

    `ShamirInput` checks no degree. Of 2t + 1 parties the t + 1 honest ones' shares lie on some polynomial of
    degree t, so what goes with it is a share of the party's own that it has not, and the first opening fails.
    That a party enters another element than a bit: tests/protocols/test_bits_of_elements.py.
    """
    (tmp_path / "entered.mpc").write_text(ENTERED)
    monkeypatch.setattr(runs, "PROGRAMS", tmp_path)
    words = (5, 9, 255, 0), (3, 170, 0, 255)
    right = tuple((a ^ b) >> i & 1 for i in range(8) for a, b in zip(*words, strict=True))
    operation = Operation("entered", bits=(words,), right=right)
    built = build_interposer(tmp_path)
    attack = Attack(MODELS["malicious-shamir"], operation, 2, built, tmp_path / "parties")
    attack._inputs = (0, 2)  # the second of the two tampers
    attack.feed((), operation.bits)
    attack.lay_out()
    element = 8  # bytes, of which 5 are used
    shared = next(message for message in payloads(attack) if message.length == len(right) * element)
    changes = [Change(shared, Kind.FLIP, element * lane + lane % 5, lane) for lane in range(0, 32, 4)]
    assert {attack.run(change).reaction for change in changes} == {Reaction.ABORTED}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.mpspdz("rep4-ring")
def test_each_kind_is_noticed(kind: Kind, make: Make) -> None:
    """A long message in the middle, which nobody can do without."""
    attack = make("rep4-ring", "and", 1)
    messages = payloads(attack)
    message = max(
        messages,
        key=lambda candidate: (candidate.length, -abs(messages.index(candidate) - len(messages) // 2)),
    )
    assert attack.run(Change(message, kind, 0, 1 << 33)).reaction in NOTICED


@pytest.mark.parametrize("model", by_model(WITHSTAND))
@pytest.mark.parametrize(
    ("tried", "most"),
    [
        (OPERATIONS, 30),
        (QUICK, 20),
        *((NOISE[family], 10) for family in NoiseFamily),
        *((STOCK[family], 15) for family in NoiseFamily),
    ],
    ids=["operations", "programs", "noise", "symmetric noise", "stock", "symmetric stock"],
)
def test_seeded_messages(tried: Sequence[Operation], most: int, model: str, tmp_path: Path) -> None:
    """Some messages of all that a walk changes: no honest party takes, or sees, a wrong result."""
    built = build_interposer(tmp_path)
    parties = laid_out([MODELS[model]], tried, tmp_path / "parties", built)
    chosen = random.Random(model).sample(sites(parties, 1), most)
    counted = Counter(tamper(parties, site).outcome for site in chosen)
    assert counted[Reaction.WRONG] == counted[Reaction.SHIFTED] == 0
    assert counted[Reaction.ABORTED] > 0 and counted[Reaction.UNTOUCHED] < 6


def staged(stage: Stage, family: NoiseFamily = NoiseFamily.SIGNED) -> StockOperation:
    """Return noise made ahead of which one stage is changed."""
    (operation,) = [operation for operation in STOCK[family] if operation.stage is stage]
    return operation


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[str, int], StockAttack]:
    """Lay out parties of a model that use noise made ahead, one of which changes its part of it."""
    built = build_interposer(tmp_path)

    def attack(model: str, tamperer: int) -> StockAttack:
        made = StockAttack(
            MODELS[model], staged(Stage.STORED), tamperer, built, tmp_path / f"{model}-{tamperer}"
        )
        made.lay_out()
        return made

    return attack


def of_share(attack: StockAttack, place: int) -> Change:
    """Return a change of one share, `place` values of 64 bits or MACs before the end of the file."""
    size = 14 if attack.model.name == "spdz2k" else 8
    length = len(next(iter(attack.stored().values())))
    return Change(Message(0, 0, length), Kind.SHIFT, length - place * size, 1)


@pytest.mark.parametrize("tamperer", [0, 1])
@pytest.mark.parametrize("model", by_model(WITHSTAND))
def test_no_honest_party_takes_noise_that_one_changed(
    model: str, tamperer: int, stored: Callable[[str, int], StockAttack]
) -> None:
    """Its share, its MAC, a piece of another run, an old one; after each abort the next piece is as safe."""
    attack, harmless = stored(model, tamperer), {Reaction.ABORTED, Reaction.OPENED}
    assert attack.make() is attack.use(attack.stored()).reaction is Reaction.RIGHT
    for change in [of_share(attack, place) for place in (1, 2, 3)]:
        attack.make()
        assert attack.use(changed(attack.stored(), change)).reaction in {*harmless, Reaction.RIGHT}
    for kind in (Kind.SWAP, Kind.REPEAT):
        assert attack.run(Change(Message(0, 0, 8), kind, 0, 1)).reaction in harmless, kind
    assert attack.make() is attack.use(attack.stored()).reaction is Reaction.RIGHT


@pytest.mark.mpspdz("ring")
def test_a_passive_model_takes_changed_noise(stored: Callable[[str, int], StockAttack]) -> None:
    attack = stored("ring", 0)
    attack.make()
    assert attack.use(changed(attack.stored(), of_share(attack, 2))).reaction is Reaction.WRONG


@pytest.mark.mpspdz("spdz2k")
def test_the_key_of_one_piece_forges_no_share_of_the_next(
    stored: Callable[[str, int], StockAttack],
) -> None:
    """A check that fails tells the cheater the key, by which it could forge shares of the same piece."""
    attack, keys = stored("spdz2k", 1), []
    for outcome in (Reaction.WRONG, Reaction.ABORTED):
        attack.make()
        keys.append(sum(mac_key(attack, party) for party in range(2)))
        assert attack.use(forged(attack.stored(), keys[0])).reaction is outcome
    assert keys[0] != keys[1]


def mac_key(attack: StockAttack, party: int) -> int:
    (file,) = attack.directories[party].glob("Player-Data/*/Player-MAC-Keys-R-*")
    return int(file.read_text().split()[1])


def forged(files: Files, key: int) -> Files:
    """Return a party's files with 4 added to its last share, and 4 times the key to that share's MAC."""
    (name, content), size = next(iter(files.items())), 14
    made = Change(Message(0, 0, len(content)), Kind.SHIFT, len(content) - 2 * size, 4)
    mac = int.from_bytes(content[-size:], "little") + 4 * key
    shifted = changed(files, made)[name][:-size]
    return files | {name: shifted + (mac % (1 << 8 * size)).to_bytes(size, "little")}


@pytest.mark.mpspdz("ps-rep-ring")
def test_a_piece_that_one_party_did_not_finish_is_kept_by_nobody(tmp_path: Path) -> None:
    built = build_interposer(tmp_path)
    attack = StockAttack(MODELS["ps-rep-ring"], staged(Stage.MAKING), 1, built, tmp_path / "parties")
    attack.lay_out()
    longest = max(attack.messages(), key=lambda message: message.length)
    assert attack.run(Change(longest, Kind.SHIFT_ALL, 0, 1)) == AttackedRun(Reaction.ABORTED, ())
