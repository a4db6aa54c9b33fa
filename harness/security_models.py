"""The security models that a protocol can run under: who computes, whom they need not trust."""

from dataclasses import dataclass

from harness.errors import OptionError
from harness.inputs.rings import FIELD, RING, Ring
from protocols.spec import REPLICATED, InputPath

_SORTED_AT_ONCE = (
    10_000  # keys, for which the largest batches are made: docs/decisions/0013-counting-records.md
)


@dataclass(frozen=True)
class SecurityModel:
    """One row of the README's table of models.

    Attributes: parties: r; corruptions: t, how many of them may collude; adversary: what the model is
    made for, "passive" (they follow the protocol) or "active" (they may not); broken: whether the engine
    falls short of that, see docs/explanation/limitations.md; virtual_machine: MP-SPDZ's program, None for the
    embedded engine; statistical_security_bits: b, where it fails with probability 2^-b: in an active model
    any of its checks, in a passive one the mask of each integer that is compared; None where it has no such
    term; batches: how much material the machine prepares at once, least and most, None for its own choice;
    cryptography: what it rests on besides, in words;
    replicated: whether clients may give each share to r - 1 parties, so that no active one can change it.
    """

    name: str
    engine: str
    parties: int
    corruptions: int
    adversary: str
    domain: Ring
    virtual_machine: str | None = None
    compile_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    statistical_security_bits: int | None = None
    paper_name: str | None = None
    batches: tuple[int, int] | None = None
    broken: bool = False
    cryptography: str = "TLS or pseudorandom functions"
    replicated: bool = False

    def batch(self, lanes: int, keys: int = 0) -> int | None:
        """Return the size of batches for this many noisy values, None for the machine's own choice.

        Few rounds for many values, little waste for few: docs/decisions/0008-cost-of-noise.md.
        Args: keys: that are sorted, which takes thousands of ANDs for each.
        """
        if self.batches is None or not lanes:
            return None
        least, most = self.batches
        return max(min(most, max(least, 4 * lanes)), min(_SORTED_AT_ONCE, keys))

    def security_bits(self, compared: int) -> int | None:
        """Return b: in a run the engine's security fails with probability 2^-b at most; None: no such term.

        Computes: checks fail at the first cheat or not at all, as one that is noticed ends the run; masks
        fail one by one, so that their probabilities add up.
        [test: tests/harness/pipeline/test_manifest.py]
        Args: compared: how many integers the program compares.
        """
        if self.statistical_security_bits is None or self.active:
            return self.statistical_security_bits
        return self.statistical_security_bits - (compared - 1).bit_length() if compared else None

    @property
    def slots_per_lane(self) -> int:
        """How many slots are counted in bits before they become integers: docs/decisions/0016-slots.md."""
        return 63 if self.virtual_machine else 1  # MPyC's bits are integers

    @property
    def active(self) -> bool:
        """Whether it is made for active parties, which its engine may not withstand: see `tolerates`."""
        return self.adversary == "active"

    @property
    def tolerates(self) -> str:
        """Which parties the engine withstands as it is: "passive" or "active"."""
        return "passive" if self.broken else self.adversary

    def refusal(self, path: InputPath) -> str | None:
        """Return None if clients' values can come to the model by this path, else why not."""
        if path is not REPLICATED or self.replicated:
            return None
        able = " or ".join(model.name for model in MODELS.values() if model.replicated)
        return (
            f"Security model {self.name} takes no replicated shares; choose {able}, or --input-path shares."
        )


_RING = ("-R", "64")
_ENCRYPT = ("-e",)  # the two-party machines send in the clear unless told
_DIRECT = (*_ENCRYPT, "-d")  # what is opened goes to the other party, not by way of one of the two
_AT_ONCE = (50_000, 50_000)  # fewer rounds, as smaller runs make no more than they need
# SPDZ2k's MAC check fails with probability 2^-(48 - log2(49)) < 2^-42; its default, 64, is slower.
_SPDZ2K = (*_ENCRYPT, "-SP", "48")
_TRANSFER = "TLS, oblivious transfer or pseudorandom functions"
_HASHES = "TLS, pseudorandom functions or hashes"
_MASKS_OF_MPYC = 61  # the most that a field of 127 bits has room for, beside integers of 64; as fast as 40

MODELS: dict[str, SecurityModel] = {
    model.name: model
    for model in (
        SecurityModel("semi2k", "mp-spdz", 2, 1, "passive", RING, "semi2k-party.x", (*_RING, "-Y"), _DIRECT,
              paper_name="OTSemi2k", batches=(1000, 10_000), cryptography=_TRANSFER),
        SecurityModel("ring", "mp-spdz", 3, 1, "passive", RING, "replicated-ring-party.x",
              (*_RING, "-Z", "3"), paper_name="Replicated2k", batches=_AT_ONCE),
        SecurityModel("spdz2k", "mp-spdz", 2, 1, "active", RING, "spdz2k-party.x", (*_RING, "-Y"), _SPDZ2K,
              40, "SPDZ2k", (300, 10_000), cryptography=_TRANSFER),
        # Its check of multiplications passes whatever was sent, up to MP-SPDZ's head of June 2026.
        SecurityModel("sy-rep-ring", "mp-spdz", 3, 1, "active", RING, "sy-rep-ring-party.x", (*_RING, "-Y"),
              paper_name="SPDZ-wise Replicated2k", batches=_AT_ONCE, broken=True),
        SecurityModel("ps-rep-ring", "mp-spdz", 3, 1, "active", RING, "ps-rep-ring-party.x",
              (*_RING, "-Z", "3"), (), 40, batches=_AT_ONCE, cryptography=_HASHES, replicated=True),
        SecurityModel("rep4-ring", "mp-spdz", 4, 1, "active", RING, "rep4-ring-party.x", (*_RING, "-Z", "4"),
              paper_name="Rep4-2k", batches=_AT_ONCE, cryptography=_HASHES, replicated=True),
        SecurityModel("mpyc", "embedded", 3, 1, "passive", FIELD, statistical_security_bits=_MASKS_OF_MPYC),
    )
}  # fmt: skip


def get_model(name: str) -> SecurityModel:
    """Return the model of that name. Raises: OptionError: there is none."""
    try:
        return MODELS[name]
    except KeyError:
        raise OptionError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.") from None
