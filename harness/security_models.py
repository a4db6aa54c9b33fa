"""Security models: numbers of parties, and the collusion that they withstand."""

from dataclasses import dataclass

from fairshares.harness.errors import OptionError, named
from fairshares.harness.inputs.rings import FIELD, RING, Ring
from fairshares.protocols.spec import REPLICATED, InputPath

_SORTED_AT_ONCE = 10_000  # keys of the largest batches: docs/decisions/0013-counting-records.md


@dataclass(frozen=True)
class SecurityModel:
    """One security model, as in docs/reference/models.md.

    Attributes:
        corruptions: How many parties may collude, the same in all runs (a static adversary).
        adversary: "passive" (they follow the protocol) or "active" (they may not), by design.
        virtual_machine: MP-SPDZ's program, None for the embedded engine.
        compile_options: Options of MP-SPDZ's compiler. They name the ring's bits, and how the machine turns
            integers into bits: "-Y" by edaBits, or "-Z", "3" by splitting each share among 3 parties.
        run_options: Options of the virtual machine.
        statistical_security_bits: b: a check of an active model, or a compared integer's mask in a passive
            one, fails with probability 2^-b each; None without such a term.
        batches: The least and most material prepared at once; None for the machine's choice.
        prepares_ands: Whether the machine also prepares material for ANDs of bits, of which plans count
            whole batches.
        broken: Whether the engine falls short of `adversary`; see docs/explanation/limitations.md.
        cryptography: Further assumptions, in words.
        replicated: Whether all parties but one hold each share, so that no active one can change it.
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
    run_options: tuple[str, ...] = ()
    statistical_security_bits: int | None = None
    paper_name: str | None = None
    batches: tuple[int, int] | None = None
    broken: bool = False
    cryptography: str = "TLS or pseudorandom functions"
    replicated: bool = False
    fixed_batch: int | None = None
    is_bare: bool = False
    prepares_ands: bool = True

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
        if path is not REPLICATED or self.replicated:
            return None
        able = " or ".join(model.name for model in MODELS.values() if model.replicated)
        return (
            f"Security model {self.name} takes no replicated shares; choose {able}, or "
            f"{named('input_path', 'shares')}."
        )


# Options of MP-SPDZ's compiler: the ring's bits, and how shares become shares of bits: -Y by edaBits, -Z by
# splitting each share among so many parties.
_RING_EDABITS = ("-R", "64", "-Y")
_RING_SPLIT_3 = ("-R", "64", "-Z", "3")
_RING_SPLIT_4 = ("-R", "64", "-Z", "4")
# Options of machines without an honest majority, which send in the clear by default: -e encrypts, and with -d
# opened values go straight to the other party.
_DIRECT = ("-e", "-d")
_AT_ONCE = (50_000, 50_000)  # fewer rounds; smaller runs make no more than they need
# SPDZ2k's MAC check fails with probability 2^-(48 - log2(49)) < 2^-42; its default, 64, is slower.
_SPDZ2K = ("-e", "-SP", "48")
_TRANSFER = "TLS, oblivious transfer or pseudorandom functions"
_HASHES = "TLS, pseudorandom functions or hashes"
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
            run_options=_DIRECT,
            paper_name="OTSemi2k",
            batches=(1000, 10_000),
            cryptography=_TRANSFER,
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
            paper_name="Replicated2k",
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
            paper_name="SPDZ2k",
            batches=(300, 10_000),
            cryptography=_TRANSFER,
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
            paper_name="SPDZ-wise Replicated2k",
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
            paper_name="Rep4-2k",
            batches=_AT_ONCE,
            cryptography=_HASHES,
            replicated=True,
            prepares_ands=False,
        ),
        SecurityModel(
            name="mpyc",
            engine="embedded",
            parties=3,
            corruptions=1,
            adversary="passive",
            ring=FIELD,
            statistical_security_bits=_MASKS_OF_MPYC,
        ),
    )
}


def get_model(name: str) -> SecurityModel:
    """Return a model, or raise OptionError."""
    if name not in MODELS:
        raise OptionError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    return MODELS[name]
