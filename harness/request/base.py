"""What all releases have in common: how much may be known of whom, and how it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from harness.errors import OptionError, named
from harness.request.fields import Option, Options, as_text, optional, required, switch, usual
from harness.request.readers import (
    one_of,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_model,
    parse_path_of_shares,
    parse_population,
    parse_relation,
    parse_unit,
)
from protocols.guarantee import Guarantee

if TYPE_CHECKING:  # what takes long to import is imported where it is used
    from harness.inputs.record_schema import RecordDomain
    from protocols.accounting.calibration import NeighboringRelation, Neighbors
    from protocols.noise.added import NoiseDistribution
    from protocols.spec import InputForm, InputPath, ProtocolSpec

JOINT = "joint"  # noise that the parties make together
DISTRIBUTED, DISTRIBUTED_GAUSSIAN = (
    "distributed",
    "distributed-gaussian",
)  # noise that each draws for itself, which adds up to either distribution
WITH_DISTRIBUTED_NOISE = ("weights", "confusion", "thresholds", "gap")
DEFAULT_DELTA = "2^-40"

EPSILON = required(
    parse_epsilon,
    "ε that this command may spend, in total; above 0, at most 20, for example 1 or 0.5",
    "1",
)
DELTA = usual(DEFAULT_DELTA, parse_delta, "upper bound of this command's δ, in total")
SECURITY = Option[Any](parse_model, "see `./inv security`; default: ring if available, else mpyc")
RELATION = optional(
    parse_relation, "add_or_remove_one or replace_one; default: the latter where --max-count is 1"
)
UNIT = usual(
    "record",
    parse_unit,
    "what is protected: record (default: one record of a client) or client (all its records)",
)
NOISES = one_of(lambda: (JOINT, DISTRIBUTED, DISTRIBUTED_GAUSSIAN))
NOISE = usual(
    JOINT,
    NOISES,
    "joint (default: made in the computation, known to nobody) or distributed (each party adds its own: much "
    "faster, with larger errors; a party that deviates can shift the result unnoticed), which adds up to "
    "Laplace's; or distributed-gaussian, which adds up to Gauss's",
)
OFFLINE = switch("take joint noise that --preprocess made before; refused where none fits")
AT_REST = (
    "shares (default): additive, sent before the run; replicated: no party can change one, but any two have "
    "all, in ps-rep-ring and rep4-ring"
)
INPUT_PATH_OF_SHARES = usual("shares", parse_path_of_shares, AT_REST)
POPULATION = optional(
    parse_population,
    "whose records these are, a name of your choice, which is charged; none: nobody counts",
)


class Spending(Options):
    """How much may be known: what a command or a call may spend, or accepts."""

    epsilon = EPSILON
    delta = DELTA

    @property
    def guarantee(self) -> Guarantee:
        """Both together."""
        return Guarantee(self.epsilon, self.delta)

    def spending(self, guarantee: Guarantee) -> Self:
        """Return the same with so much to spend."""
        return self.but(epsilon=guarantee.epsilon, delta=guarantee.delta)


class Request(Spending):
    """A release: what is revealed, of whom, and how much of it may be known.

    Attributes:
        task: The name of its command, and of its statistic.
        protocols: The protocols that compute it, by variant, the default one first.
        slots: The protocol where clients are the unit, "" if it has none of its own.
        online: Whether clients can send to it while the parties run.
        statistic: Its class, as `module:class` in `harness.releases`.
        of_call: What its call has besides, or otherwise than other releases; by the fields' names.
        also: What help's example of its command has besides the options that have to be given.
    """

    task: ClassVar[str]
    protocols: ClassVar[Mapping[str, str]]
    slots: ClassVar[str] = ""
    online: ClassVar[bool] = False
    statistic: ClassVar[str] = ""
    of_call: ClassVar[Mapping[str, Any]] = {}
    also = "--records my.csv"

    security: Any = SECURITY  # a `Model`, None until one is chosen
    input_path: Any = INPUT_PATH_OF_SHARES
    population = POPULATION
    # What not all releases have.
    privacy_unit: Any = UNIT
    neighboring_relation: Any = None
    input_form: Any = None
    noise: Any = JOINT
    offline: Any = False
    cap: Any = None
    cap_epsilon: Any = None
    variant: Any = ""
    chain: Any = None
    positive_label: Any = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """Return the request that is among other options."""
        request = object.__new__(cls)
        vars(request).update({name: getattr(options, name) for name in cls.declared})
        return request

    @classmethod
    def specs(cls) -> dict[str, ProtocolSpec]:
        """Return its protocols by variant, the default one first."""
        from protocols.spec import PROTOCOLS

        return {variant: PROTOCOLS[name] for variant, name in cls.protocols.items()}

    @classmethod
    def input_forms(cls) -> dict[str, InputForm]:
        """Return all forms in which clients may share for it, by name."""
        from protocols.spec import PROTOCOLS

        every = [*cls.specs().values(), *([PROTOCOLS[cls.slots]] if cls.slots else [])]
        return {name: form for spec in every for name, form in spec.input_forms.items()}

    @property
    def spec(self) -> ProtocolSpec:
        """The protocol: the variant that was chosen; where clients are the unit and their shares are at hand,
        the one that counts slots, unless another form is asked for.
        """
        from protocols.accounting.calibration import PrivacyUnit
        from protocols.spec import CLIENTS, PROTOCOLS, SLOTS

        default = next(iter(self.protocols))
        variant = self.variant or default
        of_clients = self.privacy_unit is PrivacyUnit.CLIENT and self.input_path is not CLIENTS
        form = self.input_form or (SLOTS.name if of_clients else "")
        if self.slots and variant == default and form == SLOTS.name:
            return PROTOCOLS[self.slots]
        return PROTOCOLS[self.protocols[variant]]

    @property
    def form(self) -> InputForm:
        """How clients' values enter the protocol. Raises: OptionError: it has no such form."""
        return chosen_form(self.spec.input_forms, self.input_form, self.input_path)

    @property
    def own_distribution(self) -> NoiseDistribution | None:
        """What distributed noise adds up to, None where noise is joint."""
        return distribution_of(self.noise)

    def program_of(self, spec: ProtocolSpec) -> ProtocolSpec:
        """Return a protocol as it runs with this noise, and its clients' values by their path.

        Raises: OptionError: it has no place for the noise.
        """
        from protocols.spec import REPLICATED, with_distributed_noise, with_noise_made_ahead

        if self.offline:
            ahead = with_noise_made_ahead(spec, self.form) if self.own_distribution is None else None
            if ahead is None:
                raise OptionError(
                    f"{named('offline')} is for joint noise, and not for replicated shares, which lie where "
                    "the noise would; leave it out, or leave out what asks for these or for other noise."
                )
            return ahead
        if self.own_distribution is None:
            return spec.by(self.form.path)
        if self.form.path is REPLICATED:
            raise OptionError(
                f"Replicated shares take joint noise only: {named('noise', DISTRIBUTED)} is what "
                f"a party could shift a result by; leave it out, or use {named('input_path', 'shares')}."
            )
        program = with_distributed_noise(spec, self.form)
        if program is None:
            raise no_place(spec)
        return program.by(self.form.path)

    @property
    def malleable_slots(self) -> bool:
        """Whether a party may move clients' records between cells, so that noise is for exchanged ones."""
        from protocols.accounting.calibration import PrivacyUnit

        of_clients = self.privacy_unit is PrivacyUnit.CLIENT
        return of_clients and self.form.exchangeable and self.security.tolerates == "active"

    @property
    def own(self) -> tuple[NoiseDistribution, int, int] | None:
        """Of distributed noise: its distribution, how many they are, and how many of them may be corrupt."""
        distribution = self.own_distribution
        return (distribution, self.security.parties, self.security.corruptions) if distribution else None

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:
        """Return the relation that was chosen, or the default. Raises: OptionError: as `relation_for`."""
        from harness.request.neighbors import relation_for

        return relation_for(domain, self.form, self.neighboring_relation, self.privacy_unit)

    def neighbors_in(self, domain: RecordDomain) -> Neighbors:
        """Return whom its noise is made for. Raises: OptionError: as `relation_in`."""
        from protocols.accounting.calibration import Neighbors

        return Neighbors(self.relation_in(domain), domain.max_records_per_unit, self.malleable_slots)

    def to_json(self) -> dict[str, str]:
        """Return what `harness.request.releases.request_from_json` reads: each field that has a value."""
        texts = {name: as_text(getattr(self, name)) for name in self.declared}
        return {"task": self.task, **{name: text for name, text in texts.items() if text}}


def no_place(spec: ProtocolSpec) -> OptionError:
    """Return the error for distributed noise in a protocol that has no place for it."""
    return OptionError(
        f"{spec.name} has no place for distributed noise ({named('noise', DISTRIBUTED)}); leave it out, or "
        f"choose a release that adds noise to sums: {', '.join(WITH_DISTRIBUTED_NOISE)}."
    )


def chosen_form(forms: Mapping[str, InputForm], name: str | None, path: InputPath) -> InputForm:
    """Return the input form of that name, by that path; the first form without a name.

    Raises: OptionError: there is none.
    """
    form = forms[parse_choice("input_form", name, list(forms)) if name else next(iter(forms))]
    return form.by(path)


def distribution_of(noise: str) -> NoiseDistribution | None:
    """Return what distributed noise adds up to, None where noise is joint."""
    from protocols.noise.added import NoiseDistribution

    return {DISTRIBUTED: NoiseDistribution.LAPLACE, DISTRIBUTED_GAUSSIAN: NoiseDistribution.GAUSSIAN}.get(
        noise
    )
