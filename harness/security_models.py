"""Security models: numbers of parties, and the collusion that they withstand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairshares.harness.errors import OptionError, named
from fairshares.harness.inputs.rings import FIELD, RING, Ring
from fairshares.harness.numbers_of_parties import MOST_PARTIES
from fairshares.protocols.spec import CLIENTS, REPLICATED, InputPath

_SORTED_AT_ONCE = 10_000  # keys of the largest batches: docs/decisions/0013-counting-records.md


@dataclass(frozen=True)
class PartyNumbers:
    """The numbers of parties that a model takes, and how many of them may collude.

    Attributes:
        least: The smallest number.
        most: The largest number.
        honest_majority: Whether fewer than half of the parties may collude. If not, all but one may.
        odd: Whether it takes odd numbers alone.
    """

    least: int
    most: int = MOST_PARTIES
    honest_majority: bool = False
    odd: bool = False

    @property
    def taken(self) -> Sequence[int]:
        """The numbers, in order."""
        return range(self.least, self.most + 1, 2 if self.odd else 1)

    @property
    def in_words(self) -> str:
        """The numbers in words, to be followed by "parties"."""
        if self.odd:
            *others, largest = self.taken
            return f"{', '.join(map(str, others))} or {largest}"
        return f"{self.least} to {self.most}"

    def corruptions(self, parties: int) -> int:
        """Return how many of so many parties may collude."""
        if self.honest_majority:
            return (parties - 1) // 2
        return parties - 1


@dataclass(frozen=True)
class SecurityModel:
    """One security model, as in docs/reference/models.md.

    A model with `numbers` has an instance for each number of parties. `MODELS` holds the instances of usual
    numbers, and `get_model` returns any instance.

    Attributes:
        parties: How many parties compute.
        corruptions: How many parties may collude, the same in all runs (a static adversary).
        adversary: "passive" (they follow the protocol) or "active" (they may not), by design.
        virtual_machine: MP-SPDZ's program, None for the embedded engine.
        compile_options: Options of MP-SPDZ's compiler. They name the ring's bits, and how the machine turns
            integers into bits: "-Y" by edaBits, or "-Z", "3" by splitting each share among 3 parties.
        masked_from: The number of parties from which on a share is split into one number of each party, which
            then also mask bits that become integers (`protocols.circuits.integers`); None if shares are never
            split.
        run_options: Options of the virtual machine.
        statistical_security_bits: b: a check of an active model, or a compared integer's mask in a passive
            one, fails with probability 2^-b each; None without such a term.
        mask_bits: K: the bits of a compared integer's mask beyond its own, in the embedded engine; None in
            others. A mask is the sum of a part for each set of parties that may collude, which these do not
            know. So each part is shorter, by the logarithm of their number.
        batches: The least and most material prepared at once; None for the machine's choice.
        prepares_ands: Whether the machine also prepares material for ANDs of bits, of which plans count
            whole batches.
        makes_bits_of_keys: Whether programs may turn clients' keys into bits in it.
        broken: Whether the engine falls short of `adversary`; see docs/explanation/limitations.md.
        cryptography: Further assumptions, in words.
        replicated: Whether all parties but one hold each share, so that no active one can change it.
        numbers: The numbers of parties that it takes; None if `parties` is the only one.
        fixed_batch: The size of all batches; None where it follows from what a run prepares.
        is_bare: Whether it is a machine of MP-SPDZ with options of a user's, for programs of the user's
            own: nothing in them is mended, and links ask for no certificates.
    """

    name: str
    engine: str
    parties: int
    corruptions: int
    adversary: str
    ring: Ring
    virtual_machine: str | None = None
    compile_options: tuple[str, ...] = ()
    masked_from: int | None = None
    run_options: tuple[str, ...] = ()
    statistical_security_bits: int | None = None
    batches: tuple[int, int] | None = None
    broken: bool = False
    cryptography: str = "TLS or pseudorandom functions"
    replicated: bool = False
    numbers: PartyNumbers | None = None
    mask_bits: int | None = None
    fixed_batch: int | None = None
    is_bare: bool = False
    prepares_ands: bool = True
    makes_bits_of_keys: bool = True

    def takes(self, parties: int) -> bool:
        """Return whether so many parties can compute in this model."""
        if self.numbers is None:
            return parties == self.parties
        return parties in self.numbers.taken

    def with_parties(self, parties: int) -> "SecurityModel":
        """Return the model of so many parties, or raise OptionError."""
        if not self.takes(parties):
            able = ", ".join(model.name for model in MODELS.values() if model.takes(parties))
            raise OptionError(
                f"Model {self.name} takes {self.numbers_taken} parties, not {parties}; choose another number "
                f"with {named('parties')}, or a model of {parties} parties with {named('security')}: "
                f"{able or 'there is none'}."
            )
        if self.numbers is None:
            return self
        corruptions = self.numbers.corruptions(parties)
        bits = self.statistical_security_bits
        if self.mask_bits is not None:
            bits = bits_of_masks(self.mask_bits, parties, corruptions)
        chosen = replace(self, parties=parties, corruptions=corruptions, statistical_security_bits=bits)
        if chosen.parties_that_mask:
            return replace(chosen, compile_options=(*_RING_SPLIT, str(parties), *_MASKED))
        return replace(chosen, compile_options=MODELS[self.name].compile_options)

    @property
    def parties_that_mask(self) -> int:
        """The number of parties with numbers of their own in masks of bits that become integers."""
        if self.masked_from is None or self.parties < self.masked_from:
            return 0
        return self.parties

    @property
    def numbers_taken(self) -> str:
        """The numbers of parties that it takes, in words."""
        if self.numbers is None:
            return str(self.parties)
        return self.numbers.in_words

    @property
    def stated_parties(self) -> int | None:
        """The number of parties as files and messages state it; None stands for the model's usual number."""
        if self.is_bare or self.parties == MODELS[self.name].parties:
            return None
        return self.parties

    @property
    def title(self) -> str:
        """The name, with the number of parties if that is not the usual one; policies of hosts name it so."""
        return title_of(self.name, self.stated_parties)

    def batch(self, lanes: int, keys: int = 0) -> int | None:
        """Return the batch size, None for the machine's choice.

        Source: docs/decisions/0008-cost-of-noise.md.

        Args:
            lanes: The most lanes of bits that are input at once.
            keys: The number of records on which the program computes at once; 0 if it does not.
        """
        if self.fixed_batch is not None:
            return self.fixed_batch
        if self.batches is None or not lanes:
            return None
        least, most = self.batches
        for_lanes = min(most, max(least, 4 * lanes))
        for_keys = min(_SORTED_AT_ONCE, keys)
        return max(for_lanes, for_keys)

    def security_bits(self, compared: int) -> int | None:
        """Return b: a run's engine security fails with probability 2^-b at most; None without such a term.

        Checks count once, since a noticed cheat ends the run; masks' probabilities add up.
        [test: tests/harness/pipeline/test_manifest.py]
        """
        if self.statistical_security_bits is None or self.active:
            return self.statistical_security_bits
        if not compared:
            return None
        return self.statistical_security_bits - (compared - 1).bit_length()

    @property
    def slots_per_lane(self) -> int:
        """The number of slots that are counted in bits at once: docs/decisions/0016-slots.md."""
        if self.virtual_machine is None:
            return 1  # MPyC's bits are integers
        return 63

    @property
    def active(self) -> bool:
        """Whether the model is designed for active parties; see `tolerates`."""
        return self.adversary == "active"

    @property
    def tolerates(self) -> str:
        """The adversary that the engine withstands in fact."""
        if self.broken:
            return "passive"
        return self.adversary

    def refusal(self, path: InputPath) -> str | None:
        """Return why clients' values cannot take this path, None if they can."""
        if path is CLIENTS and self.virtual_machine is not None and self.ring is not RING:
            able = ", ".join(model.name for model in MODELS.values() if model.ring is RING)
            return (
                f"Security model {self.name} computes modulo a prime, and takes no values by input path "
                f"{path.name!r}; use {named('input_path', 'shares')}, or one of the models {able}."
            )
        if path is not REPLICATED or self.replicated:
            return None
        able = " or ".join(model.name for model in MODELS.values() if model.replicated)
        return (
            f"Security model {self.name} takes no replicated shares; choose {able}, or "
            f"{named('input_path', 'shares')}."
        )


def bits_of_masks(mask_bits: int, parties: int, corruptions: int) -> int:
    """Return b: a compared integer's mask fails to hide it with probability 2^-b at most, in MPyC.

    Source: MPyC's `runtime._np_randoms`, which makes a mask's parts uniform below the largest power of 2
    whose multiple by their number is at most 2^mask_bits. Those who collude know all parts but one. Below
    the mask are 64 random bits, and compared integers are less than 2^62 apart, which adds 2 bits.
    [test: tests/harness/engines/test_mpyc_masks.py]
    """
    parts = math.comb(parties, corruptions)
    return mask_bits - (parts - 1).bit_length() + 2


# Options of MP-SPDZ's compiler: the ring's bits, and how shares become shares of bits: -Y by edaBits, -Z by
# splitting each share among so many parties.
_RING_EDABITS = ("-R", "64", "-Y")
_RING_SPLIT = ("-R", "64", "-Z")
_RING_SPLIT_3 = (*_RING_SPLIT, "3")
_RING_SPLIT_4 = (*_RING_SPLIT, "4")
# Says that each party knows the bits of one of a share's parts: `protocols.circuits.machine`.
_MASKED = ("-E", "semi2k")
# Options of machines without an honest majority, which send in the clear by default: -e encrypts, and with -d
# opened values go straight to the other party.
_DIRECT = ("-e", "-d")
_AT_ONCE = (50_000, 50_000)  # fewer rounds; smaller runs make no more than they need
# SPDZ2k's MAC check fails with probability 2^-(48 - log2(49)) < 2^-42; its default, 64, is slower.
_SPDZ2K = ("-e", "-SP", "48")
# Machines of Shamir's shares compute modulo a prime, here FIELD's, on integers of 64 bits.
_PRIME = ("-P", str(FIELD.modulus))
# Integers are compared by arithmetic bits, and "-E" says that parties may enter what is no bit:
# docs/decisions/0092-shamirs-shares.md.
_FIELD_DABITS = ("-F", "64", "-X", *_PRIME, "-E", "malicious-shamir")
_BITS_OF_PRIME = FIELD.modulus.bit_length()  # masks are uniform modulo the prime but for 2^-127
_FIELD_EDABITS = ("-F", "64", "-Y", *_PRIME)
_TRANSFER = "TLS, oblivious transfer or pseudorandom functions"
_HASHES = "TLS, pseudorandom functions or hashes"
_ALL_BUT_ONE_COLLUDE = PartyNumbers(2)
_FEWER_THAN_HALF_COLLUDE = PartyNumbers(3, honest_majority=True)
# Of 2t + 1 parties the t + 1 honest ones define what any party shared; of more they may disagree.
_ONE_MORE_THAN_HALF_HONEST = PartyNumbers(3, most=15, honest_majority=True, odd=True)
_MASKS_OF_MPYC = 61  # the most that fits into a field of 127 bits beside 64-bit integers; as fast as 40

MODELS: dict[str, SecurityModel] = {
    model.name: model
    for model in (
        SecurityModel(
            name="semi2k",
            engine="mp-spdz",
            parties=2,
            corruptions=1,
            adversary="passive",
            ring=RING,
            virtual_machine="semi2k-party.x",
            compile_options=_RING_EDABITS,
            masked_from=3,
            run_options=_DIRECT,
            batches=(1000, 10_000),
            cryptography=_TRANSFER,
            numbers=_ALL_BUT_ONE_COLLUDE,
        ),
        SecurityModel(
            name="ring",
            engine="mp-spdz",
            parties=3,
            corruptions=1,
            adversary="passive",
            ring=RING,
            virtual_machine="replicated-ring-party.x",
            compile_options=_RING_SPLIT_3,
            batches=_AT_ONCE,
            prepares_ands=False,
        ),
        SecurityModel(
            name="spdz2k",
            engine="mp-spdz",
            parties=2,
            corruptions=1,
            adversary="active",
            ring=RING,
            virtual_machine="spdz2k-party.x",
            compile_options=_RING_EDABITS,
            run_options=_SPDZ2K,
            statistical_security_bits=40,
            batches=(300, 10_000),
            cryptography=_TRANSFER,
            numbers=_ALL_BUT_ONE_COLLUDE,
        ),
        # Its check of multiplications passes whatever was sent, up to MP-SPDZ's head of June 2026.
        SecurityModel(
            name="sy-rep-ring",
            engine="mp-spdz",
            parties=3,
            corruptions=1,
            adversary="active",
            ring=RING,
            virtual_machine="sy-rep-ring-party.x",
            compile_options=_RING_EDABITS,
            batches=_AT_ONCE,
            broken=True,
        ),
        SecurityModel(
            name="ps-rep-ring",
            engine="mp-spdz",
            parties=3,
            corruptions=1,
            adversary="active",
            ring=RING,
            virtual_machine="ps-rep-ring-party.x",
            compile_options=_RING_SPLIT_3,
            statistical_security_bits=40,
            batches=_AT_ONCE,
            cryptography=_HASHES,
            replicated=True,
        ),
        SecurityModel(
            name="rep4-ring",
            engine="mp-spdz",
            parties=4,
            corruptions=1,
            adversary="active",
            ring=RING,
            virtual_machine="rep4-ring-party.x",
            compile_options=_RING_SPLIT_4,
            batches=_AT_ONCE,
            cryptography=_HASHES,
            replicated=True,
            prepares_ands=False,
        ),
        SecurityModel(
            name="shamir",
            engine="mp-spdz",
            parties=3,
            corruptions=1,
            adversary="passive",
            ring=FIELD,
            virtual_machine="shamir-party.x",
            compile_options=_FIELD_EDABITS,
            run_options=_PRIME,
            statistical_security_bits=_BITS_OF_PRIME,
            batches=_AT_ONCE,
            numbers=_FEWER_THAN_HALF_COLLUDE,
        ),
        SecurityModel(
            name="malicious-shamir",
            engine="mp-spdz",
            parties=3,
            corruptions=1,
            adversary="active",
            ring=FIELD,
            virtual_machine="malicious-shamir-party.x",
            compile_options=_FIELD_DABITS,
            run_options=_PRIME,
            statistical_security_bits=40,
            batches=(1000, 10_000),
            cryptography=_HASHES,
            numbers=_ONE_MORE_THAN_HALF_HONEST,
            makes_bits_of_keys=False,
        ),
        SecurityModel(
            name="mpyc",
            engine="embedded",
            parties=3,
            corruptions=1,
            adversary="passive",
            ring=FIELD,
            statistical_security_bits=bits_of_masks(_MASKS_OF_MPYC, parties=3, corruptions=1),
            mask_bits=_MASKS_OF_MPYC,
            numbers=_FEWER_THAN_HALF_COLLUDE,
        ),
    )
}


def get_model(name: str, parties: int | None = None) -> SecurityModel:
    """Return the model of a name and of a number of parties, the usual one if None; or raise OptionError."""
    if name not in MODELS:
        raise OptionError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    usual = MODELS[name]
    if parties is None:
        return usual
    return usual.with_parties(parties)


def title_of(name: str, parties: int | None) -> str:
    """Return the title of a model of so many parties; None is its usual number."""
    if parties is None:
        return name
    return f"{name} of {parties} parties"


def model_titled(title: str) -> SecurityModel:
    """Return the model of a title; raise OptionError or ValueError if it is none."""
    name, _, number = title.partition(" of ")
    parties = int(number.removesuffix(" parties")) if number else None
    return get_model(name, parties)
