"""The privacy statement of a release."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType, structs

from fairshares.harness.errors import named
from fairshares.harness.inputs.record_schema import Cap, cap_from_json
from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.privacy.ledger.populations import spent_text
from fairshares.harness.request.fields import as_text
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy, state_loss
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.circuits.clients import CHECKS
from fairshares.protocols.circuits.coins import NoiseFamily, exp_bounds
from fairshares.protocols.guarantee import Guarantee, compose
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import (
    CLIENTS,
    HONEST,
    RECORDS_OF_UPLOADS,
    REPLICATED,
    SHARES,
    InputForm,
    ProtocolSpec,
)

if TYPE_CHECKING:  # numpy would be loaded
    from fairshares.harness.releases.base import Answer, PreparedRelease

INFERRED = "domain inferred from records"
HONEST_CLIENTS = (
    "clients share true counts, as one that shares a number far beyond them can get a cell's exact counts "
    "revealed"
)
IN_SOME_REVEALS = (
    "Reveals: the guarantee is for a client that takes part in at most {} of them. Its own program keeps it "
    "to that; hosts cannot tell, and a client that takes part in more loses its own protection alone."
)
MOVED_RECORDS = (
    "replaced records, twice that for left-out ones, as a party can move a record to another cell or fill an "
    "empty slot"
)
SHIFTED = "a party that deviates can shift what is revealed by any amounts, unnoticed, by its noise"
DISTRIBUTED_SENTENCE = (
    "Noise: each party adds its own ({distribution}), and the guarantee counts that of {honest_parties} of "
    "{parties}, as the others may tell theirs. Note that {shifted}."
)
# The changes by an active party that inputs withstand, by the path of clients' values.
_INPUTS_WITHSTAND = {
    SHARES.described: " It can, however, change its share of a client's input unnoticed.",
    CLIENTS.described: f" It cannot change what a client sent unnoticed, but for probability 2^-{CHECKS}.",
    REPLICATED.described: (
        " It cannot change what a client shared either: that report is left out, or the run ends. In "
        "turn any {} of them together hold everything that waits for the run."
    ),
}
_MOST_EXPONENT = 64  # the largest exponent of which `exp_bounds` knows the power
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


SYMMETRIC = "Joint noise: symmetric about 0, so it moves what it is added to by 0 on average."


@dataclass(frozen=True)
class DistributedNoiseStatement:
    """The parties whose distributed noise counts, and what a party can shift by its own."""

    distribution: str
    honest_parties: int
    shifted: str


@dataclass(frozen=True)
class PrivacyStatement:
    """The privacy of a release, or of several, as files state it and as sentences say it.

    It holds no number of its own: sentences say the losses that `stated` has.

    Guarantees: no ε or δ in any rendering is below the exact one.
    [test: tests/harness/pipeline/test_manifest.py]

    Attributes:
        model: The security model of its parties.
        stated: The fields that the files state.
        releases: The number of releases in the statement.
    """

    model: SecurityModel
    stated: StatedPrivacy
    releases: int = 1

    @property
    def failure(self) -> Fraction:
        """The greatest probability that the engine's security fails."""
        return failure_of(self.stated.mpc_statistical_security_bits)

    @property
    def if_replaced(self) -> Guarantee | None:
        """The loss for what a record says, if `stated.exact` is for whether it exists."""
        replaced = self.stated.if_replaced
        if isinstance(replaced, UnsetType):
            return None
        return replaced.guarantee

    @property
    def cap(self) -> Cap | None:
        """The contribution bound, if there is one."""
        cap = self.stated.cap
        if isinstance(cap, UnsetType):
            return None
        return cap_from_json(cap, "its privacy")

    @property
    def distributed_noise(self) -> DistributedNoiseStatement | None:
        """The statement of distributed noise, None of joint noise."""
        distribution = self.stated.distribution
        honest = self.stated.honest_parties
        shifted = self.stated.shifted
        if isinstance(distribution, UnsetType) or isinstance(honest, UnsetType):
            return None
        if isinstance(shifted, UnsetType):
            return None
        return DistributedNoiseStatement(distribution, honest, shifted)

    def with_loss(
        self, exact: Guarantee, *, asked: Fraction | None = None, if_replaced: Guarantee | None = None
    ) -> "PrivacyStatement":
        """Return the statement of another loss.

        Args:
            exact: The loss.
            asked: The ε that was asked for; None: the same as here.
            if_replaced: The loss for what a record says; None: the same as here.
        """
        replaced = self.stated.if_replaced
        if if_replaced is not None:
            replaced = state_loss(if_replaced)
        requested = self.stated.epsilon_requested
        if asked is not None:
            requested = asked
        return self._with(
            epsilon=float_up(exact.epsilon),
            delta=float_up(exact.delta),
            epsilon_exact=exact.epsilon,
            delta_exact=exact.delta,
            epsilon_requested=requested,
            if_replaced=replaced,
        )

    @property
    def restated(self) -> StatedPrivacy:
        """The fields that a run would state for this loss, to compare them with the fields of a file."""
        made_ahead = self.stated.made_ahead or UNSET  # false stands for a missing field
        stated = self.with_loss(self.stated.exact)._with(made_ahead=made_ahead).stated
        if self.distributed_noise is None:
            return structs.replace(
                stated, noise=UNSET, distribution=UNSET, honest_parties=UNSET, shifted=UNSET
            )
        return structs.replace(stated, noise="distributed")

    def _with(self, **changes: object) -> "PrivacyStatement":
        """Return the statement with other fields of `stated`, and the sentence that follows from them."""
        changed = structs.replace(self.stated, **changes)
        sentence = end_to_end(
            self.model,
            changed.exact,
            changed.mpc_statistical_security_bits,
            input_path=changed.input_path,
            assumes=not isinstance(changed.assumed, UnsetType),
            releases=self.releases,
        )
        return replace(self, stated=structs.replace(changed, end_to_end=sentence))

    def in_short(self, *, here: bool = False) -> list[str]:
        """Return three lines: the revealed values, their loss, and the trust.

        Args:
            here: Whether all parties ran on this machine.
        """
        stated = self.stated
        epsilon, delta = bounds_shown(stated.exact)
        existence = ""
        if self.if_replaced is not None:
            epsilon_replaced, delta_replaced = bounds_shown(self.if_replaced)
            existence = f"; for what it says, ε = {epsilon_replaced}, δ = {delta_replaced}"
        inferred = ""
        if INFERRED in stated.public:
            inferred = ", and which groups and labels there are"
        return [
            f"Revealed: {'; '.join(stated.revealed)}{inferred}.",
            f"Guarantee: ε = {epsilon} ({as_text(stated.epsilon_requested)} asked), δ = {delta}, "
            f"{what_changes(stated.privacy_unit, stated.neighboring_relation)}{existence}.",
            f"Trust: {'; '.join(self._trusted(here))}.",
        ]

    def _trusted(self, here: bool) -> list[str]:
        """Return who is trusted, and for what, in short."""
        model = self.model
        adversary = "malicious"
        if model.tolerates == "passive":
            adversary = "semi-honest"
        if model.broken:
            adversary += ", though MP-SPDZ's check has no effect: docs/explanation/limitations.md"
        colluding = str(model.corruptions + 1)
        if model.corruptions > 1:
            colluding = f"{colluding} of {model.parties}"
        parties = f"{model.parties} parties, {adversary}, no {colluding} collude"
        if here:
            trusted = [f"this machine, which ran all ({model.name}: {parties})"]
        else:
            trusted = [f"{parties} ({model.name})"]
        if self.stated.assumed:
            trusted.append("clients, to share counts of records")
        if self.stated.participations:
            trusted.append(f"each client's own program, to keep it to {self.stated.participations} reveals")
        if self.stated.cap_kept_by == HONEST:
            trusted.append("clients, to keep to the cap")
        if self.distributed_noise is not None:
            trusted.append(SHIFTED)
        return trusted

    def in_full(self) -> list[str]:
        """Return sentences on the revealed values, their loss, and all assumptions."""
        stated = self.stated
        sentences = [
            f"Revealed: {'; '.join(stated.revealed)}. Nothing else leaves the computation.",
            f"Guarantee: (ε, δ)-differential privacy with {spent_text(self.stated.exact)}, for "
            f"{_CHANGES_IN_FULL[stated.neighboring_relation].format(stated.privacy_unit)} "
            f"(ε = {as_text(stated.epsilon_requested)} was requested; exact values are in "
            "manifest.json).",
        ]
        if self.if_replaced is not None:
            sentences.append(
                "The guarantee above is for whether a record exists. For what it says it is "
                f"{spent_text(self.if_replaced)}, since another record may take its place."
            )
        sentences += self._on_noise()
        if stated.assumed:
            sentences.append(f"Assumed: {stated.assumed}.")
        if stated.participations:
            sentences.append(IN_SOME_REVEALS.format(stated.participations))
        sentences += [
            f"Public: {', '.join(stated.public)}.",
            f"Taking part is not protected: the number of clients is public, and with {named('records')} "
            "exactly the clients in the file take part.",
        ]
        if INFERRED in stated.public:
            sentences.append(
                "Groups and labels were read off the records, so which of them occur is not protected; "
                f"declare them with {named('domain')}, or with {named('groups')} and {named('labels')}."
            )
        sentences.append(self._on_computation())
        if stated.end_to_end:
            sentences.append(stated.end_to_end)
        return sentences

    def _on_noise(self) -> list[str]:
        """Return sentences on the contribution bound, and on the noise."""
        stated = self.stated
        sentences = []
        if self.cap is not None:
            sentences.append(f"Cap: {_contribution(self.cap)}. Kept to by {stated.cap_kept_by}.")
        if stated.noise_for:
            sentences.append(f"The noise is for {stated.noise_for}.")
        if self.distributed_noise is not None:
            of_parties = asdict(self.distributed_noise)
            sentences.append(DISTRIBUTED_SENTENCE.format(**of_parties, parties=self.model.parties))
        if stated.noise_family:
            sentences.append(SYMMETRIC)
        if stated.made_ahead:
            sentences.append(MADE_AHEAD)
        return sentences

    def _on_computation(self) -> str:
        """Return the sentences on the security model."""
        model = self.model
        learns = who_learns_nothing(model, self.distributed_noise is not None)
        inputs = ""
        if model.active:
            inputs = _INPUTS_WITHSTAND[self.stated.input_path].format(model.corruptions + 1)
        if model.broken:
            inputs = (
                " The model is made for parties that deviate, but MP-SPDZ's check of them is without effect "
                "(docs/explanation/limitations.md): it counts as passive."
            )
        return f"Computation: {model.parties} parties, model {model.name}: {learns}.{inputs}"


def end_to_end(
    model: SecurityModel,
    exact: Guarantee,
    bits: int | None,
    *,
    input_path: str,
    assumes: bool,
    releases: int = 1,
) -> str:
    """Return the joint guarantee of noise, engine and cryptography, in one sentence.

    Source: SIM-CDP of Mironov, Pandey, Reingold and Vadhan 2009. Here η includes the checks of clients that
    send.
    Guarantees: docs/explanation/theorems.md, theorem 7.
    [test: tests/harness/privacy/test_end_to_end.py, tests/harness/pipeline/test_manifest.py]

    Args:
        model: The security model.
        exact: The loss by noise.
        bits: b, if the engine's security fails with probability 2^-b at most; None if it cannot.
        input_path: How clients' values reach the parties, in words.
        assumes: Whether clients have to share true counts.
        releases: The number of releases, each with checks of clients of its own.
    """
    active = model.tolerates == "active"
    eta = failure_of(bits)
    if active and input_path == CLIENTS.described:
        eta += Fraction(releases, 1 << CHECKS)
    if not eta:
        total = exact.delta
    elif exact.epsilon > _MOST_EXPONENT:
        total = Fraction(1)  # all that is known, whatever η is
    else:
        total = exact.delta + (1 + exp_bounds(exact.epsilon)[1]) * eta
    behavior = "follows the protocol"
    if active:
        behavior = "may deviate"
    controlled = f"one of {model.parties} parties, which {behavior}"
    if model.corruptions > 1:
        controlled = f"up to {model.corruptions} of {model.parties} parties, each of which {behavior}"
    honest_clients = ""
    if assumes:
        honest_clients = " that share true counts"
    return (
        f"End to end: against whoever controls {controlled}, any other clients{honest_clients} and the "
        f"network, ε = {digits_up(exact.epsilon, 4)} holds with δ′ = δ + (1 + e^ε)·(η + ν) ≤ "
        f"{digits_up(min(total, Fraction(1)), 4)} + (1 + e^ε)·ν, where η = {digits_up(eta, 2)} is the "
        f"engine's chance to fail, and ν that of breaking {model.cryptography}."
    )


def together(statements: Sequence[PrivacyStatement]) -> PrivacyStatement:
    """Return the joint statement of releases on the same people, of one model, unit and relation.

    ε, δ and probabilities of failure add up; `revealed` and `public` have the entries of all. Any other field
    is the latest statement's that has it.
    """
    latest = statements[-1]
    failure = sum((statement.failure for statement in statements), Fraction(0))
    stated = structs.replace(
        _latest_fields([statement.stated for statement in statements]),
        mpc_statistical_security_bits=bits_of(failure),
        revealed=_all_in(statement.stated.revealed for statement in statements),
        public=_all_in(statement.stated.public for statement in statements),
    )
    releases = sum(statement.releases for statement in statements)
    losses_if_replaced = [statement.if_replaced for statement in statements if statement.if_replaced]
    if_replaced = None
    if losses_if_replaced:
        if_replaced = compose(losses_if_replaced)
    return PrivacyStatement(latest.model, stated, releases).with_loss(
        compose(statement.stated.exact for statement in statements),
        asked=sum((statement.stated.epsilon_requested for statement in statements), Fraction(0)),
        if_replaced=if_replaced,
    )


def _latest_fields(stated: Sequence[StatedPrivacy]) -> StatedPrivacy:
    """Return a statement with each field of the latest statement that has the field."""
    united = stated[0]
    for later in stated[1:]:
        has = [name for name in later.__struct_fields__ if getattr(later, name) is not UNSET]
        united = structs.replace(united, **{name: getattr(later, name) for name in has})
    return united


def _all_in(lists: Iterable[list[str]]) -> list[str]:
    """Return the values in any of these lists, once each, in order."""
    return list(dict.fromkeys(chain.from_iterable(lists)))


def state_privacy(prepared: "PreparedRelease[Answer]", compared: int, attempts: int = 0) -> PrivacyStatement:
    """Return a release's statement.

    Args:
        prepared: The release on its domain.
        compared: How many integers its program compares.
        attempts: How often parties began to make its noise ahead; 0 if they make it in the run.
    """
    release = prepared.release
    plan = prepared.plan
    domain = prepared.domain
    spec = prepared.program
    form = release.form
    model = release.model
    cap = domain.cap
    exact = plan.exact
    # Noise that hides whether a record exists hides less well what it says.
    existence_only = plan.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    # The encoding bounds a single upload, and in a chain a client may have several.
    kept_by = HONEST if release.charged_with else form.capped
    computations = (1 + attempts) * max(1, domain.reveals)
    bits = bits_of(failure_of(model.security_bits(compared)) * computations)
    assumes = assumes_honest_clients(spec, form, model)
    distributed = state_distributed_noise(plan.own, form) if plan.own else None
    public = [fact for fact in form.public if not cap or fact != RECORDS_OF_UPLOADS]
    if domain.vectors is None:
        public.append("most records of one client")
    if cap:
        public.append(cap.described)
    if domain.inferred:
        public.append(INFERRED)
    stated = StatedPrivacy(
        epsilon=float_up(exact.epsilon),
        delta=float_up(exact.delta),
        epsilon_exact=exact.epsilon,
        delta_exact=exact.delta,
        epsilon_requested=release.protect.epsilon,
        neighboring_relation=plan.relation,
        privacy_unit=plan.unit,
        mpc_statistical_security_bits=bits,
        input_form=form.name,
        input_path=form.path.described,
        revealed=list(spec.revealed),
        cap=cap.to_json() if cap else UNSET,
        cap_kept_by=kept_by if cap and kept_by is not None else UNSET,
        if_replaced=state_loss(plan.if_replaced) if existence_only else UNSET,
        noise_for=MOVED_RECORDS if plan.neighbors.malleable_slots else UNSET,
        noise="distributed" if distributed else UNSET,
        noise_family="symmetric" if plan.family is NoiseFamily.SYMMETRIC else UNSET,
        distribution=distributed.distribution if distributed else UNSET,
        honest_parties=distributed.honest_parties if distributed else UNSET,
        shifted=distributed.shifted if distributed else UNSET,
        made_ahead=True if attempts else UNSET,
        assumed=HONEST_CLIENTS if assumes else UNSET,
        participations=(domain.vectors.participations or UNSET) if domain.vectors else UNSET,
        public=public,
        end_to_end=end_to_end(model, exact, bits, input_path=form.path.described, assumes=assumes),
    )
    return PrivacyStatement(model, stated)


def state_distributed_noise(noise: DistributedNoise, form: InputForm) -> DistributedNoiseStatement:
    """Return the statement of distributed noise."""
    alike = "as it can by its shares"
    if form.path.authenticated or form.exchangeable:  # a slot counts no more than a record
        alike = "with joint noise it could not"
    return DistributedNoiseStatement(str(noise.distribution), noise.honest, f"{SHIFTED}; {alike}")


def bits_of(failure: Fraction) -> int | None:
    """Return the largest b with a probability of failure of 2^-b at most; None if nothing can fail."""
    if not failure:
        return None
    return int(1 / failure).bit_length() - 1


def failure_of(bits: int | None) -> Fraction:
    """Return the probability of failure; 0 for None."""
    if bits is None:
        return Fraction(0)
    return Fraction(1, 1 << bits)


def assumes_honest_clients(spec: ProtocolSpec, form: InputForm, model: SecurityModel) -> bool:
    """Return whether a client that shares forbidden numbers can cancel the effect of the noise.

    No client can if a noisy sum is revealed, if clients share bits, or in a ring (`circuits.logarithm`). A
    field's comparisons are right for small numbers only.
    [test: tests/programs/test_pi_count.py]
    """
    return not spec.linear and not form.shares_bits and model.ring is FIELD


def bounds_shown(guarantee: Guarantee) -> tuple[str, str]:
    """Return ε and δ, rounded up to four digits."""
    return digits_up(guarantee.epsilon, 4), digits_up(guarantee.delta, 4)


def what_changes(unit: PrivacyUnit, relation: NeighboringRelation) -> str:
    """Say how neighboring data sets differ."""
    return _CHANGES[relation].format(unit)


def who_learns_nothing(model: SecurityModel, distributed_noise: bool = False) -> str:
    """Say under which behavior a party, or parties that collude, learn only the results."""
    if model.corruptions > 1:
        return _who_learn_nothing_together(model, distributed_noise)
    behavior = {
        "passive": "if it follows the protocol (passive, or semi-honest)",
        "active": "even if it deviates from the protocol (active, or malicious)",
    }[model.tolerates]
    more = "anything more"
    if distributed_noise:
        more = "anything more, but what its own noise in it tells it,"
    return f"no single party learns {more} {behavior}"


def _who_learn_nothing_together(model: SecurityModel, distributed_noise: bool) -> str:
    """Say the same of as many parties as may collude."""
    behavior = {
        "passive": "if they follow the protocol (passive, or semi-honest)",
        "active": "even if they deviate from the protocol (active, or malicious)",
    }[model.tolerates]
    honest = model.parties - model.corruptions
    are = "is" if honest == 1 else "are"
    counted = "one" if honest == 1 else str(honest)
    more = "nothing more together"
    if distributed_noise:
        more = "nothing more together, but what their own noise in it tells them,"
    return (
        f"as long as at least {counted} of the {model.parties} parties {are} honest, the others learn {more} "
        f"{behavior}"
    )


def _contribution(cap: Cap) -> str:
    if cap.weight_one:
        return "all records of a client weigh 1 together, each as much as the others, rounded at random"
    most = f"at most {cap.slots} records of a client count"
    if cap.slots == 1:
        most = "one record of a client counts"
    return f"{most}, chosen at random if there are more"
