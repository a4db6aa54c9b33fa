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
        statistical_security_bits: b: a check of an active model, or a compared integer's mask in a passive
            one, fails with probability 2^-b each; None without such a term.
        batches: The least and most material prepared at once; None for the machine's choice.
        broken: Whether the engine falls short of `adversary`, see docs/explanation/limitations.md.
        cryptography: Further assumptions, in words.
        replicated: Whether all parties but one hold each share, so that no active one can change it.
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
        """Return the batch size, None for the machine's choice: docs/decisions/0008-cost-of-noise.md."""
        if self.batches is None or not lanes:
            return None
        least, most = self.batches
        return max(min(most, max(least, 4 * lanes)), min(_SORTED_AT_ONCE, keys))

    def security_bits(self, compared: int) -> int | None:
        """Return b: a run's engine security fails with probability 2^-b at most; None without such a term.

        Checks count once, since a noticed cheat ends the run; masks' probabilities add up.
        [test: tests/harness/pipeline/test_manifest.py]
        """
        if self.statistical_security_bits is None or self.active:
            return self.statistical_security_bits
        return self.statistical_security_bits - (compared - 1).bit_length() if compared else None

    @property
    def slots_per_lane(self) -> int:
        """Number of slots counted in bits at once: docs/decisions/0016-slots.md."""
        return 63 if self.virtual_machine else 1  # MPyC's bits are integers

    @property
    def active(self) -> bool:
        """Whether it is designed for active parties; see `tolerates`."""
        return self.adversary == "active"

    @property
    def tolerates(self) -> str:
        """The adversary that the engine withstands in fact."""
        return "passive" if self.broken else self.adversary

    def refusal(self, path: InputPath) -> str | None:
        """Return why clients' values cannot take this path, if so."""
        if path is not REPLICATED or self.replicated:
            return None
        able = " or ".join(model.name for model in MODELS.values() if model.replicated)
        return (
            f"Security model {self.name} takes no replicated shares; choose {able}, or "
            f"{named('input_path', 'shares')}."
        )


_RING = ("-R", "64")
_ENCRYPT = ("-e",)  # two-party machines send in the clear by default
_DIRECT = (*_ENCRYPT, "-d")  # opened values go straight to the other party
_AT_ONCE = (50_000, 50_000)  # fewer rounds; smaller runs make no more than they need
# SPDZ2k's MAC check fails with probability 2^-(48 - log2(49)) < 2^-42; its default, 64, is slower.
_SPDZ2K = (*_ENCRYPT, "-SP", "48")
_TRANSFER = "TLS, oblivious transfer or pseudorandom functions"
_HASHES = "TLS, pseudorandom functions or hashes"
_MASKS_OF_MPYC = 61  # the most that fits into a field of 127 bits beside 64-bit integers; as fast as 40

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
    """Return a model, or raise OptionError."""
    if name not in MODELS:
        raise OptionError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    return MODELS[name]
