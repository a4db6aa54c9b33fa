"""The privacy statement of a release."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
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
from fairshares.protocols.circuits.coins import exp_bounds
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

if TYPE_CHECKING:  # which loads numpy
    from fairshares.harness.releases.base import Answer, PreparedRelease

INFERRED = "domain inferred from records"
HONEST_CLIENTS = (
    "clients share true counts, as one that shares a number far beyond them can get a cell's exact counts "
    "revealed"
)
MOVED_RECORDS = (
    "replaced records, twice that for left-out ones, as a party can move a record to another cell or fill an "
    "empty slot"
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


@dataclass(frozen=True)
class PrivacyStatement:
    """What files state of the privacy of a release, or of several, in sentences.

    It holds no number of its own: a loss is said as `stated` has it.

    Guarantees: no ε or δ in any rendering is below the exact one.
    [test: tests/harness/pipeline/test_manifest.py]

    Attributes:
        model: The security model of its parties.
        stated: What the files state.
        releases: The number of releases in the statement.
    """

    model: SecurityModel
    stated: StatedPrivacy
    releases: int = 1

    @property
    def exact(self) -> Guarantee:
        """The upper bound on the privacy loss."""
        return self.stated.exact

    @property
    def failure(self) -> Fraction:
        """The greatest probability that the engine's security fails."""
        return failure_of(self.stated.mpc_statistical_security_bits)

    @property
    def if_replaced(self) -> Guarantee | None:
        """The loss for the content of a client's only record, if `exact` is for its existence."""
        replaced = self.stated.if_replaced
        return None if isinstance(replaced, UnsetType) else replaced.guarantee

    @property
    def cap(self) -> Cap | None:
        """The contribution bound, if there is one."""
        cap = self.stated.cap
        return None if isinstance(cap, UnsetType) else cap_from_json(cap, "its privacy")

    @property
    def distributed_noise(self) -> DistributedNoiseStatement | None:
        """The noise of the parties' own, None if they made it together."""
        distribution, honest = self.stated.distribution, self.stated.honest_parties
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
            if_replaced: The loss for the content of a client's only record; None: the same as here.
        """
        replaced = self.stated.if_replaced if if_replaced is None else state_loss(if_replaced)
        return self._with(
            epsilon=float_up(exact.epsilon),
            delta=float_up(exact.delta),
            epsilon_exact=exact.epsilon,
            delta_exact=exact.delta,
            epsilon_requested=self.stated.epsilon_requested if asked is None else asked,
            if_replaced=replaced,
        )

    @property
    def restated(self) -> StatedPrivacy:
        """What a run would state of this loss, to compare with what a file states of it."""
        stated = self.with_loss(self.exact)._with(made_ahead=self.stated.made_ahead or UNSET).stated
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
        """Return three lines: the revealed values, their loss, and the trust."""
        model, stated = self.model, self.stated
        epsilon, delta = bounds_shown(self.exact)
        replaced = bounds_shown(self.if_replaced) if self.if_replaced else ()
        existence = "; for what it says, ε = {}, δ = {}".format(*replaced) if replaced else ""
        inferred = ", and which groups and labels there are" if INFERRED in stated.public else ""
        adversary = "semi-honest" if model.tolerates == "passive" else "malicious"
        if model.broken:
            adversary += ", though MP-SPDZ's check has no effect: docs/explanation/limitations.md"
        trust = f"{model.parties} parties, {adversary}, no {model.corruptions + 1} collude"
        trusted = [
            f"this machine, which ran all ({model.name}: {trust})" if here else f"{trust} ({model.name})",
            stated.assumed and "clients, to share counts of records",
            stated.cap_kept_by == HONEST and "clients, to keep to the cap",
            self.distributed_noise and SHIFTED,
        ]
        return [
            f"Revealed: {'; '.join(stated.revealed)}{inferred}.",
            f"Guarantee: ε = {epsilon} ({as_text(stated.epsilon_requested)} asked), δ = {delta}, "
            f"{what_changes(stated.privacy_unit, stated.neighboring_relation)}{existence}.",
            f"Trust: {'; '.join(sentence for sentence in trusted if sentence)}.",
        ]

    def in_full(self) -> list[str]:
        """Return sentences on the revealed values, their loss, and all assumptions."""
        model, stated = self.model, self.stated
        learns = who_learns_nothing(model, self.distributed_noise is not None)
        inputs = _INPUTS_WITHSTAND[stated.input_path] if model.active else ""
        if model.broken:
            inputs = (
                " The model is made for parties that deviate, but MP-SPDZ's check of them is without effect "
                "(docs/explanation/limitations.md): it counts as passive."
            )
        sentences = [
            f"Revealed: {'; '.join(stated.revealed)}. Nothing else leaves the computation.",
            f"Guarantee: (ε, δ)-differential privacy with {spent_text(self.exact)}, for "
            f"{_CHANGES_IN_FULL[stated.neighboring_relation].format(stated.privacy_unit)} "
            f"(ε = {as_text(stated.epsilon_requested)} was requested; exact values are in "
            "manifest.json).",
            self.if_replaced
            and "Each client has one record at most, and the guarantee above is for whether it exists. For "
            f"what it says it is {spent_text(self.if_replaced)}; "
            f"{named('neighboring_relation', 'replace_one')} keeps these to what was requested.",
            self.cap and f"Cap: {_contribution(self.cap)}. Kept to by {stated.cap_kept_by}.",
            stated.noise_for and f"The noise is for {stated.noise_for}.",
            self.distributed_noise
            and DISTRIBUTED.format(**asdict(self.distributed_noise), parties=model.parties),
            stated.made_ahead and MADE_AHEAD,
            stated.assumed and f"Assumed: {stated.assumed}.",
            f"Public: {', '.join(stated.public)}.",
            f"Taking part is not protected: the number of clients is public, and with {named('records')} "
            "exactly the clients in the file take part.",
            INFERRED in stated.public
            and "Groups and labels were read off the records, so which of them occur is not protected; "
            f"declare them with {named('domain')}, or with {named('groups')} and {named('labels')}.",
            f"Computation: {model.parties} parties, model {model.name}: {learns}."
            + inputs.format(model.corruptions + 1),
            stated.end_to_end,
        ]
        return [sentence for sentence in sentences if sentence]


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
    total = exact.delta + (1 + exp_bounds(min(exact.epsilon, Fraction(64)))[1]) * eta
    return (
        f"End to end: against whoever controls one of {model.parties} parties, which "
        f"{'may deviate' if active else 'follows the protocol'}, any other clients"
        f"{' that share true counts' if assumes else ''} and the network, "
        f"ε = {digits_up(exact.epsilon, 4)} holds with δ′ = δ + (1 + e^ε)·(η + ν) ≤ "
        f"{digits_up(min(total, Fraction(1)), 4)} + (1 + e^ε)·ν, where η = {digits_up(eta, 2)} is the "
        f"engine's chance to fail, and ν that of breaking {model.cryptography}."
    )


def together(statements: Sequence[PrivacyStatement]) -> PrivacyStatement:
    """Return the joint statement of releases on the same people, of one model, unit and relation.

    ε, δ and failures add up, `revealed` and `public` unite, and otherwise the latest statement wins unless it
    says nothing.
    """
    latest = statements[-1].stated
    united = statements[0].stated
    for later in statements[1:]:
        fields = {name: getattr(later.stated, name) for name in latest.__struct_fields__}
        said = {name: value for name, value in fields.items() if value is not UNSET}
        united = structs.replace(united, **said)
    failures = sum((statement.failure for statement in statements), Fraction(0))
    replaced = [statement.if_replaced for statement in statements if statement.if_replaced]
    united = structs.replace(
        united,
        mpc_statistical_security_bits=bits_of(failures),
        revealed=_all_in(statement.stated.revealed for statement in statements),
        public=_all_in(statement.stated.public for statement in statements),
    )
    of_all = PrivacyStatement(
        statements[-1].model, united, releases=sum(statement.releases for statement in statements)
    )
    return of_all.with_loss(
        compose(statement.exact for statement in statements),
        asked=sum((statement.stated.epsilon_requested for statement in statements), Fraction(0)),
        if_replaced=compose(replaced) if replaced else None,
    )


def _all_in(lists: Iterable[list[str]]) -> list[str]:
    """Return what is in any of these lists, once each, in order."""
    return list(dict.fromkeys(one for listed in lists for one in listed))


def state_privacy(prepared: "PreparedRelease[Answer]", compared: int, attempts: int = 0) -> PrivacyStatement:
    """Return a release's statement.

    Args:
        prepared: The release on its domain.
        compared: How many integers its program compares.
        attempts: How often parties began to make its noise ahead; 0 if they make it in the run.
    """
    release, plan, domain, spec = prepared.release, prepared.plan, prepared.domain, prepared.program
    form, model, cap, exact = release.form, release.model, domain.cap, plan.exact
    # With one record a client, hiding that it exists does not hide as well what it says.
    existence_only = domain.max_count == 1 and plan.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    # The encoding bounds one upload, and in a chain a client may have several.
    kept_by = HONEST if release.inputs.chain else form.capped
    bits = bits_of(failure_of(model.security_bits(compared)) * (1 + attempts))
    assumes = assumes_honest_clients(spec, form, model)
    distributed = state_distributed_noise(plan.own, form) if plan.own else None
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
        cap_kept_by=kept_by if cap else UNSET,
        if_replaced=state_loss(plan.if_replaced) if existence_only else UNSET,
        noise_for=MOVED_RECORDS if plan.neighbors.malleable_slots else UNSET,
        noise="distributed" if distributed else UNSET,
        distribution=distributed.distribution if distributed else UNSET,
        honest_parties=distributed.honest_parties if distributed else UNSET,
        shifted=distributed.shifted if distributed else UNSET,
        made_ahead=True if attempts else UNSET,
        assumed=HONEST_CLIENTS if assumes else UNSET,
        public=[
            *(public_fact for public_fact in form.public if not cap or public_fact != RECORDS_OF_UPLOADS),
            "most records of one client",
            *([cap.described] if cap else []),
            *([INFERRED] if domain.inferred else []),
        ],
        end_to_end=end_to_end(model, exact, bits, input_path=form.path.described, assumes=assumes),
    )
    return PrivacyStatement(model, stated)


def state_distributed_noise(noise: DistributedNoise, form: InputForm) -> DistributedNoiseStatement:
    """Return the statement of distributed noise."""
    alike = "as it can by its shares"
    if form.path.authenticated or form.exchangeable:  # slots, none of which counts more than a record
        alike = "with joint noise it could not"
    return DistributedNoiseStatement(str(noise.distribution), noise.honest, f"{SHIFTED}; {alike}")


def bits_of(failure: Fraction) -> int | None:
    """Return the largest b with a probability of failure of 2^-b at most; None if nothing can fail."""
    return int(1 / failure).bit_length() - 1 if failure else None


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
