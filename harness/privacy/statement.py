"""The privacy statement of a release."""

from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction

from msgspec import UNSET

from harness.errors import named
from harness.inputs.record_schema import Cap
from harness.inputs.rings import FIELD
from harness.privacy.ledger.populations import spent_text
from harness.security_models import SecurityModel
from harness.stated_privacy import StatedPrivacy, state_loss
from protocols.accounting.calibration import NeighboringRelation, NoisePlan, PrivacyUnit
from protocols.accounting.rounding import digits_up, exact_text, float_up
from protocols.circuits.clients import CHECKS
from protocols.circuits.coins import exp_bounds
from protocols.guarantee import Guarantee, compose
from protocols.noise.added import DistributedNoise
from protocols.spec import CLIENTS, HONEST, RECORDS_OF_UPLOADS, REPLICATED, SHARES, InputForm, ProtocolSpec

INFERRED = "domain inferred from records"
HONEST_CLIENTS = (
    "clients share true counts, as one that shares a number far beyond them can get a cell's exact counts "
    "revealed"
)
SHIFTED = "a party that deviates can shift what is revealed by any amounts, unnoticed, by its noise"
DISTRIBUTED = (
    "Noise: each party adds its own ({distribution}), and the guarantee counts that of {honest_parties} of "
    "{parties}, as the others may tell theirs. Note that {shifted}."
)
_INPUTS_WITHSTAND = {  # an active party, by the path of clients' values
    SHARES.described: " It can, however, change its share of a client's input unnoticed.",
    CLIENTS.described: f" It cannot change what a client sent unnoticed, but for probability 2^-{CHECKS}.",
    REPLICATED.described: (
        " It cannot change what a client shared either: that report is left out, or the run ends. In "
        "turn any {} of them together hold everything that waits for the run."
    ),
}
_CHANGES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one {} added or removed",
    NeighboringRelation.REPLACE_ONE: "one {} replaced",
    NeighboringRelation.ZERO_OUT_ONE: "all of a client's records",
}
_CHANGES_IN_FULL = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one {} of a client added or removed",
    NeighboringRelation.REPLACE_ONE: "one {} of a client replaced by another",
    NeighboringRelation.ZERO_OUT_ONE: "all records of a client together, there or not",
}


MADE_AHEAD = (
    "Noise that was made before the run: joint. Who has as many parties' shares of it as can add it up knows "
    "the exact values: it is guarded as clients' shares are, and used once."
)


@dataclass(frozen=True)
class DistributedNoiseStatement:
    """The parties whose distributed noise counts, and what a party can shift by its own."""

    distribution: str
    honest_parties: int
    shifted: str


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The revealed values, an upper bound on their privacy loss, and the assumptions.

    Guarantees: no ε or δ in any rendering is below the exact one.
    [test: tests/harness/pipeline/test_manifest.py]

    Attributes:
        failure: The greatest probability that the engine's security fails.
        public: Other public facts, in words.
        cap_kept_by: Who enforces the contribution bound `cap`.
        if_replaced: The loss for the content of a client's only record, if `exact` is for its existence.
        noise_for: What the noise hides beyond the relation.
        assumed: The assumption on clients.
        releases: The number of releases in the statement.
    """

    model: SecurityModel
    exact: Guarantee
    epsilon_requested: Fraction
    relation: NeighboringRelation
    unit: PrivacyUnit
    failure: Fraction
    input_form: str
    input_path: str
    revealed: tuple[str, ...]
    public: tuple[str, ...]
    cap: Cap | None = None
    cap_kept_by: str | None = None
    if_replaced: Guarantee | None = None
    noise_for: str | None = None
    distributed_noise: DistributedNoiseStatement | None = None
    made_ahead: bool = False
    assumed: str | None = None
    releases: int = 1

    def plus(self, later: "PrivacyStatement") -> "PrivacyStatement":
        """Return the joint statement of two releases on the same people, of one model, unit and relation.

        ε, δ and failures add up, `revealed` and `public` unite, and otherwise the later statement wins unless
        empty.
        """
        both, of_later = (self, later), {field.name: getattr(later, field.name) for field in fields(later)}
        replaced = [statement.if_replaced for statement in both if statement.if_replaced]
        together = {
            "exact": compose(statement.exact for statement in both),
            "epsilon_requested": self.epsilon_requested + later.epsilon_requested,
            "failure": self.failure + later.failure,
            "revealed": tuple(dict.fromkeys(self.revealed + later.revealed)),
            "public": tuple(dict.fromkeys(self.public + later.public)),
            "if_replaced": compose(replaced) if replaced else None,
            "made_ahead": self.made_ahead or later.made_ahead,
            "releases": self.releases + later.releases,
        }
        return replace(
            self, **{name: value for name, value in (of_later | together).items() if value is not None}
        )

    @property
    def security_bits(self) -> int | None:
        """The largest b such that the engine fails with probability 2^-b at most."""
        return int(1 / self.failure).bit_length() - 1 if self.failure else None

    @property
    def end_to_end(self) -> str:
        """The joint guarantee of noise, engine and cryptography, in one sentence.

        Source: SIM-CDP of Mironov, Pandey, Reingold and Vadhan 2009. Here η includes the checks of clients
        that send.
        Guarantees: docs/explanation/theorems.md, theorem 7.
        [test: tests/harness/privacy/test_end_to_end.py, tests/harness/pipeline/test_manifest.py]
        """
        epsilon, bits, active = self.exact.epsilon, self.security_bits, self.model.tolerates == "active"
        eta = Fraction(0) if bits is None else Fraction(1, 1 << bits)
        if active and self.input_path == CLIENTS.described:
            eta += Fraction(self.releases, 1 << CHECKS)
        total = self.exact.delta + (1 + exp_bounds(min(epsilon, Fraction(64)))[1]) * eta
        return (
            f"End to end: against whoever controls one of {self.model.parties} parties, which "
            f"{'may deviate' if active else 'follows the protocol'}, any other clients"
            f"{' that share true counts' if self.assumed else ''} and the network, "
            f"ε = {digits_up(epsilon, 4)} holds with δ′ = δ + (1 + e^ε)·(η + ν) ≤ "
            f"{digits_up(min(total, Fraction(1)), 4)} + (1 + e^ε)·ν, where η = {digits_up(eta, 2)} is the "
            f"engine's chance to fail, and ν that of breaking {self.model.cryptography}."
        )

    @property
    def stated(self) -> StatedPrivacy:
        """The statement as files hold it."""
        replaced = self.if_replaced
        distributed = self.distributed_noise
        return StatedPrivacy(
            epsilon=float_up(self.exact.epsilon),
            delta=float_up(self.exact.delta),
            epsilon_exact=self.exact.epsilon,
            delta_exact=self.exact.delta,
            epsilon_requested=self.epsilon_requested,
            neighboring_relation=self.relation,
            privacy_unit=self.unit,
            mpc_statistical_security_bits=self.security_bits,
            input_form=self.input_form,
            input_path=self.input_path,
            revealed=list(self.revealed),
            cap=UNSET if self.cap is None else self.cap.to_json(),
            cap_kept_by=UNSET if self.cap_kept_by is None else self.cap_kept_by,
            if_replaced=UNSET if replaced is None else state_loss(replaced),
            noise_for=UNSET if self.noise_for is None else self.noise_for,
            noise=UNSET if distributed is None else "distributed",
            distribution=UNSET if distributed is None else distributed.distribution,
            honest_parties=UNSET if distributed is None else distributed.honest_parties,
            shifted=UNSET if distributed is None else distributed.shifted,
            made_ahead=True if self.made_ahead else UNSET,
            assumed=UNSET if self.assumed is None else self.assumed,
            public=list(self.public),
            end_to_end=self.end_to_end,
        )

    def in_short(self, typed: str = "", here: bool = False) -> list[str]:
        """Return three lines: the revealed values, their loss, and the trust."""
        model, (epsilon, delta) = self.model, bounds_shown(self.exact)
        replaced = bounds_shown(self.if_replaced) if self.if_replaced else ()
        existence = "; for what it says, ε = {}, δ = {}".format(*replaced) if replaced else ""
        inferred = ", and which groups and labels there are" if INFERRED in self.public else ""
        adversary = "semi-honest" if model.tolerates == "passive" else "malicious"
        if model.broken:
            adversary += ", though MP-SPDZ's check has no effect: docs/explanation/limitations.md"
        trust = f"{model.parties} parties, {adversary}, no {model.corruptions + 1} collude"
        trusted = [
            f"this machine, which ran all ({model.name}: {trust})" if here else f"{trust} ({model.name})",
            self.assumed and "clients, to share counts of records",
            self.cap_kept_by == HONEST and "clients, to keep to the cap",
            self.distributed_noise and SHIFTED,
        ]
        return [
            f"Revealed: {'; '.join(self.revealed)}{inferred}.",
            f"Guarantee: ε = {epsilon} ({typed or exact_text(self.epsilon_requested)} asked), δ = {delta}, "
            f"{what_changes(self.unit, self.relation)}{existence}.",
            f"Trust: {'; '.join(sentence for sentence in trusted if sentence)}.",
        ]

    def in_full(self, typed: str = "") -> list[str]:
        """Return sentences on the revealed values, their loss, and all assumptions."""
        model = self.model
        learns = who_learns_nothing(model, self.distributed_noise is not None)
        inputs = _INPUTS_WITHSTAND[self.input_path] if model.active else ""
        if model.broken:
            inputs = (
                " The model is made for parties that deviate, but MP-SPDZ's check of them is without effect "
                "(docs/explanation/limitations.md): it counts as passive."
            )
        sentences = [
            f"Revealed: {'; '.join(self.revealed)}. Nothing else leaves the computation.",
            f"Guarantee: (ε, δ)-differential privacy with {spent_text(self.exact)}, for "
            f"{_CHANGES_IN_FULL[self.relation].format(self.unit)} "
            f"(ε = {typed or exact_text(self.epsilon_requested)} was requested; exact values are in "
            "manifest.json).",
            self.if_replaced
            and "Each client has one record at most, and the guarantee above is for whether it exists. For "
            f"what it says it is {spent_text(self.if_replaced)}; "
            f"{named('neighboring_relation', 'replace_one')} keeps these to what was requested.",
            self.cap and f"Cap: {_contribution(self.cap)}. Kept to by {self.cap_kept_by}.",
            self.noise_for and f"The noise is for {self.noise_for}.",
            self.distributed_noise
            and DISTRIBUTED.format(**asdict(self.distributed_noise), parties=model.parties),
            self.made_ahead and MADE_AHEAD,
            self.assumed and f"Assumed: {self.assumed}.",
            f"Public: {', '.join(self.public)}.",
            f"Taking part is not protected: the number of clients is public, and with {named('records')} "
            "exactly the clients in the file take part.",
            INFERRED in self.public
            and "Groups and labels were read off the records, so which of them occur is not protected; "
            f"declare them with {named('domain')}, or with {named('groups')} and {named('labels')}.",
            f"Computation: {model.parties} parties, model {model.name}: {learns}."
            + inputs.format(model.corruptions + 1),
            self.end_to_end,
        ]
        return [sentence for sentence in sentences if sentence]


def state_privacy(
    spec: ProtocolSpec,
    form: InputForm,
    model: SecurityModel,
    plan: NoisePlan,
    inferred: bool,
    *,
    cap: Cap | None = None,
    max_count: int | None = None,
    compared: int = 0,
    attempts: int = 0,
) -> PrivacyStatement:
    """Return the statement of a release that compares `compared` integers.

    Parties began `attempts` times to make noise ahead. With a `max_count` of 1, `if_replaced` states the loss
    for content.
    """
    existence_only = max_count == 1 and plan.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    return PrivacyStatement(
        model=model,
        exact=plan.exact,
        epsilon_requested=plan.requested_epsilon,
        relation=plan.relation,
        unit=plan.unit,
        failure=failure_of(model.security_bits(compared)) * (1 + attempts),
        made_ahead=attempts > 0,
        input_form=form.name,
        input_path=form.path.described,
        revealed=spec.revealed,
        public=(
            *(public_fact for public_fact in form.public if not cap or public_fact != RECORDS_OF_UPLOADS),
            "most records of one client",
            *([cap.described] if cap else []),
            *([INFERRED] if inferred else []),
        ),
        cap=cap,
        cap_kept_by=form.capped if cap else None,
        if_replaced=plan.if_replaced if existence_only else None,
        noise_for="replaced records, twice that for left-out ones, as a party can move a record to another "
        "cell or fill an empty slot"
        if plan.neighbors.malleable_slots
        else None,
        distributed_noise=state_distributed_noise(plan.own, form) if plan.own else None,
        assumed=HONEST_CLIENTS if assumes_honest_clients(spec, form, model) else None,
    )


def state_distributed_noise(noise: DistributedNoise, form: InputForm) -> DistributedNoiseStatement:
    """Return the statement of distributed noise."""
    alike = "as it can by its shares"
    if form.path.authenticated or form.exchangeable:  # slots, none of which counts more than a record
        alike = "with joint noise it could not"
    return DistributedNoiseStatement(str(noise.distribution), noise.honest, f"{SHIFTED}; {alike}")


def failure_of(bits: int | None) -> Fraction:
    """Return the probability of failure; 0 for None."""
    return Fraction(0) if bits is None else Fraction(1, 1 << bits)


def assumes_honest_clients(spec: ProtocolSpec, form: InputForm, model: SecurityModel) -> bool:
    """Return whether a client that shares forbidden numbers can cancel the effect of the noise.

    It cannot if a noisy sum is revealed or clients share bits, nor in a ring (`circuits.logarithm`). A
    field's comparisons hold for small numbers only.
    [test: tests/programs/test_pi_count.py]
    """
    return not spec.linear and not form.shares_bits and model.domain is FIELD


def bounds_shown(guarantee: Guarantee) -> tuple[str, str]:
    """Return ε and δ, rounded up to four digits."""
    return digits_up(guarantee.epsilon, 4), digits_up(guarantee.delta, 4)


def what_changes(unit: PrivacyUnit, relation: NeighboringRelation) -> str:
    """Say how neighboring data sets differ."""
    return _CHANGES[relation].format(unit)


def who_learns_nothing(model: SecurityModel, distributed_noise: bool = False) -> str:
    """Say under which behavior a single party learns only the results."""
    behaviour = {
        "passive": "if it follows the protocol (passive, or semi-honest)",
        "active": "even if it deviates from the protocol (active, or malicious)",
    }[model.tolerates]
    more = "anything more, but what its own noise in it tells it," if distributed_noise else "anything more"
    return f"no single party learns {more} {behaviour}"


def _contribution(cap: Cap) -> str:
    if cap.weight_one:
        return "all records of a client weigh 1 together, each as much as the others, rounded at random"
    most = (
        "one record of a client counts"
        if cap.slots == 1
        else f"at most {cap.slots} records of a client count"
    )
    return f"{most}, chosen at random if there are more"
