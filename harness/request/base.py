"""The fields that all releases share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from harness.errors import OptionError, named
from harness.request.fields import Option, Options, as_text, optional, required, usual
from harness.request.readers import (
    parse_budget,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_model,
    parse_path,
    parse_path_of_shares,
    parse_population,
    parse_seconds,
    parse_unit,
)
from protocols.guarantee import Guarantee

if TYPE_CHECKING:  # slow imports are in functions
    from harness.inputs.record_schema import RecordDomain
    from protocols.accounting.calibration import NeighboringRelation, Neighbors
    from protocols.noise.added import NoiseDistribution
    from protocols.spec import InputForm, InputPath, ProtocolSpec

JOINT = "joint"  # the parties make the noise together
DISTRIBUTED, DISTRIBUTED_GAUSSIAN = (
    "distributed",
    "distributed-gaussian",
)  # each party adds its own; the sum is Laplace's or Gauss's
WITH_DISTRIBUTED_NOISE = ("weights", "confusion", "thresholds", "gap")
DEFAULT_DELTA = "2^-40"

AT_REST = (
    "shares (default): additive, sent before the run; replicated: no party can change one, but any two have "
    "all, in ps-rep-ring and rep4-ring"
)
OUT = optional(parse_path, "a new directory for the results; default: runs/<task>-<time>")


class Spending(Options):
    """The privacy budget that a command or a call may spend."""

    epsilon = required(
        parse_epsilon,
        "ε that this command may spend, in total; above 0, at most 20, for example 1 or 0.5",
        "1",
    )
    delta = usual(DEFAULT_DELTA, parse_delta, "upper bound of this command's δ, in total")

    @property
    def guarantee(self) -> Guarantee:
        """Both numbers as one value."""
        return Guarantee(self.epsilon, self.delta)

    def spending(self, guarantee: Guarantee) -> Self:
        """Return a copy with another budget."""
        return self.but(epsilon=guarantee.epsilon, delta=guarantee.delta)


class Account(Options):
    """Where a release is charged."""

    budget = optional(
        parse_budget,
        "the population's total ε, or ε,δ, for example 3 or 3,1e-6; refuses runs beyond it",
    )
    ledger = optional(
        parse_path,
        "the ledger's file; default: $FAIRSHARES_LEDGER, else fairshares/ledger.sqlite in $XDG_DATA_HOME "
        "(~/.local/share)",
    )


class Run(Options):
    """A run's time limit, and the directory of its files."""

    out = OUT
    timeout = usual("600", parse_seconds, "seconds that the parties may take")


class Request(Spending):
    """A release: what is revealed, about whom, and with which guarantee.

    `protocols` are names by variant, the default first; `slots` is the one where clients are the unit.
    `statistic` is `module:class` in `harness.releases`, `of_call` the fields that a call adds or changes.
    """

    task: ClassVar[str]
    protocols: ClassVar[Mapping[str, str]]
    slots: ClassVar[str] = ""
    online: ClassVar[bool] = False
    statistic: ClassVar[str] = ""
    of_call: ClassVar[Mapping[str, Any]] = {}
    also = "--records my.csv"

    security: Any = Option[Any](  # a `Model`, None until one is chosen
        parse_model, "see `./inv security`; default: ring if available, else mpyc"
    )
    input_path: Any = usual("shares", parse_path_of_shares, AT_REST)
    population = optional(
        parse_population,
        "whose records these are, a name of your choice, which is charged; none: nobody counts",
    )
    # Fields of some releases only.
    privacy_unit: Any = usual(
        "record",
        parse_unit,
        "what is protected: record (default: one record of a client) or client (all its records)",
    )
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
        """Return the request within other options."""
        request = object.__new__(cls)
        vars(request).update({name: getattr(options, name) for name in cls.declared})
        return request

    @classmethod
    def specs(cls) -> dict[str, ProtocolSpec]:
        """Return its protocols by variant, the default first."""
        from protocols.spec import PROTOCOLS

        return {variant: PROTOCOLS[name] for variant, name in cls.protocols.items()}

    @classmethod
    def input_forms(cls) -> dict[str, InputForm]:
        """Return all input encodings of its protocols, by name."""
        from protocols.spec import PROTOCOLS

        every = [*cls.specs().values(), *([PROTOCOLS[cls.slots]] if cls.slots else [])]
        return {name: form for spec in every for name, form in spec.input_forms.items()}

    @property
    def spec(self) -> ProtocolSpec:
        """The protocol of the chosen variant.

        Where clients are the unit and shares wait for the run, it counts slots unless another encoding is
        chosen.
        """
        from protocols.spec import CLIENTS, PROTOCOLS, SLOTS

        default = next(iter(self.protocols))
        variant = self.variant or default
        of_clients = self.privacy_unit == "client" and self.input_path is not CLIENTS
        form = self.input_form or (SLOTS.name if of_clients else "")
        if self.slots and variant == default and form == SLOTS.name:
            return PROTOCOLS[self.slots]
        return PROTOCOLS[self.protocols[variant]]

    @property
    def form(self) -> InputForm:
        """The input encoding; raises OptionError if the protocol lacks it."""
        return chosen_form(self.spec.input_forms, self.input_form, self.input_path)

    @property
    def own_distribution(self) -> NoiseDistribution | None:
        """The distribution of distributed noise's sum; None for joint noise."""
        return distribution_of(self.noise)

    def program_of(self, spec: ProtocolSpec) -> ProtocolSpec:
        """Return a protocol with this noise and input path, or raise OptionError."""
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
        """Whether a party can move clients' records between cells."""
        of_clients = self.privacy_unit == "client"
        return of_clients and self.form.exchangeable and self.security.tolerates == "active"

    @property
    def own(self) -> tuple[NoiseDistribution, int, int] | None:
        """Distributed noise's distribution, and the numbers of parties and of corrupt ones."""
        distribution = self.own_distribution
        return (distribution, self.security.parties, self.security.corruptions) if distribution else None

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:
        """Return the chosen relation or the default; errors as `relation_for`."""
        from harness.inputs.encoding import relation_for

        return relation_for(domain, self.form, self.neighboring_relation, self.privacy_unit)

    def neighbors_in(self, domain: RecordDomain) -> Neighbors:
        """Return the neighbors that noise is made for; errors as `relation_for`."""
        from protocols.accounting.calibration import Neighbors

        return Neighbors(
            self.relation_in(domain), domain.cap.slots if domain.cap else 1, self.malleable_slots
        )

    def to_json(self) -> dict[str, str]:
        """Return the fields with values, for `request_from_json`."""
        texts = {name: as_text(getattr(self, name)) for name in self.declared}
        return {"task": self.task, **{name: text for name, text in texts.items() if text}}


def no_place(spec: ProtocolSpec) -> OptionError:
    """Return the error of a protocol that cannot add distributed noise."""
    return OptionError(
        f"{spec.name} has no place for distributed noise ({named('noise', DISTRIBUTED)}); leave it out, or "
        f"choose a release that adds noise to sums: {', '.join(WITH_DISTRIBUTED_NOISE)}."
    )


def chosen_form(forms: Mapping[str, InputForm], name: str | None, path: InputPath) -> InputForm:
    """Return the input encoding of this name, or the first, by this path."""
    return forms[parse_choice("input_form", name, list(forms)) if name else next(iter(forms))].by(path)


def distribution_of(noise: str) -> NoiseDistribution | None:
    """Return the distribution of distributed noise's sum; None for joint noise."""
    from protocols.noise.added import NoiseDistribution

    return {DISTRIBUTED: NoiseDistribution.LAPLACE, DISTRIBUTED_GAUSSIAN: NoiseDistribution.GAUSSIAN}.get(
        noise
    )
