"""A request's parts, and what all releases have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.fields import (
    Option,
    OptionGroup,
    Options,
    as_text,
    optional,
    required,
    switch,
    usual,
)
from fairshares.harness.request.readers import (
    OneOf,
    Whole,
    as_given,
    in_module,
    parse_budget,
    parse_cap_or_auto,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_model,
    parse_parties,
    parse_path,
    parse_path_of_shares,
    parse_population,
    parse_relation,
    parse_seconds,
    parse_unit,
    parse_unit_of_records,
)
from fairshares.protocols.guarantee import Guarantee

if TYPE_CHECKING:  # slow imports are in functions
    from pathlib import Path

    from fairshares.harness.inputs.record_schema import Cap, RecordDomain
    from fairshares.harness.security_models import SecurityModel
    from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
    from fairshares.protocols.circuits.coins import NoiseFamily
    from fairshares.protocols.noise.added import NoiseDistribution
    from fairshares.protocols.spec import InputForm, InputPath, ProtocolSpec

JOINT = "joint"  # the parties make the noise together
DISTRIBUTED = "distributed"  # each party adds its own, and the sum is Laplace's
DISTRIBUTED_GAUSSIAN = "distributed-gaussian"  # the same, and the sum is Gauss's
BY_EPSILON = "by-epsilon"  # joint noise of the family for a value's ε
SIGNED = "signed"  # joint noise that is symmetric about -1/2, whatever ε is
DEFAULT_DELTA = "2^-40"
ACCEPTED_DELTA = "2^-30"  # the δ of all runs on a client's values

AT_REST_HELP = (
    "shares (default): additive, sent before the run; replicated: no party can change one, but any two have "
    "all, in ps-rep-ring and rep4-ring"
)
OUT = optional(parse_path, "a new directory for the results; default: runs/<task>-<time>")
CAP_HELP = (
    "how many records of a client count, for example 10; or weight-one: all count, with a total weight of 1"
)
INPUT_FORM_HELP = (
    "split (default: counts per group and label) or product (group indicator times label counts)"
)
parse_pieces = Whole(1, 1000)  # pieces of noise made ahead, by one command or call
PREPROCESS = optional(
    parse_pieces,
    "make the noise of so many runs, and run nothing else: it depends on the domain, which has to be "
    "declared, and on no record; --offline then takes it",
)
PLOT = switch("also write report.html, and its pictures as PNG, beside the results, else into runs/")
FAMILIES = OneOf(lambda: (BY_EPSILON, SIGNED))
NOISES = OneOf(lambda: (JOINT, DISTRIBUTED, DISTRIBUTED_GAUSSIAN))


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


class Protect(Spending):
    """What a release protects, and how well.

    Without a choice of the unit, records are protected; without a relation, the one of the domain counts.
    """

    privacy_unit = usual(
        "record",
        parse_unit,
        "what is protected: record (default: one record of a client) or client (all its records)",
    )
    neighboring_relation = optional(
        parse_relation,
        "add_or_remove_one or replace_one; default: that of the population's first run, else replace_one "
        "where a client has one record, as without client_id or with --max-count 1",
    )
    cap = optional(
        parse_cap_or_auto,
        f"with --privacy-unit client: {CAP_HELP}; or auto, with --records: π_CAP chooses it first, "
        "in a release of its own",
    )
    cap_epsilon = optional(
        parse_epsilon, "the part of ε that --cap auto spends on choosing the cap; default: a fifth"
    )

    @property
    def of_clients(self) -> bool:
        """Whether all records of a client are protected together."""
        return self.privacy_unit == "client"

    @property
    def chooses_cap(self) -> bool:
        """Whether a release of its own is to choose the contribution bound."""
        return isinstance(self.cap, str)

    @property
    def bound(self) -> Cap | None:
        """The contribution bound, if one is named."""
        return None if isinstance(self.cap, str) else self.cap


# The field `privacy_unit` of a release without a contribution bound, by which alone it could protect clients.
# [test: tests/project/test_requests.py::test_a_release_offers_clients_if_something_bounds_what_one_adds]
RECORDS_ALONE = MappingProxyType(
    {"parse": parse_unit_of_records, "help": "what is protected: record, one record of a client"}
)


class Randomness(Options):
    """Who makes the noise, and when."""

    noise = usual(
        JOINT,
        NOISES,
        "joint (default: made in the computation, known to nobody) or distributed (each party adds its own: "
        "much faster, with larger errors; a party that deviates can shift the result unnoticed), which adds "
        "up to Laplace's; or distributed-gaussian, which adds up to Gauss's",
    )
    offline = switch("take joint noise that --preprocess made before; refused where none fits")

    noise_family = usual(
        BY_EPSILON,
        FAMILIES,
        "of joint noise: by-epsilon (default: the smaller one), or signed, which version 1.0 had at every ε, "
        "to go on with what it began: a chain, or a declared number of runs",
    )

    @property
    def distribution(self) -> NoiseDistribution | None:
        """The distribution of distributed noise's sum; None for joint noise."""
        return distribution_of(self.noise)

    def check_family(self) -> None:
        """Raise OptionError if a family of joint noise is chosen, and the noise is distributed."""
        if self.distribution is not None and self.noise_family != BY_EPSILON:
            raise OptionError(
                f"{named('noise_family', self.noise_family)} is of joint noise, and {self.noise} noise has "
                f"no family; leave out {named('noise_family')} or {named('noise', self.noise)}."
            )

    @property
    def family(self) -> NoiseFamily | None:
        """The family of joint noise; None for the one of a value's ε."""
        from fairshares.protocols.circuits.coins import NoiseFamily

        if self.noise_family == SIGNED:
            return NoiseFamily.SIGNED
        return None


class Inputs(Options):
    """How clients' values reach the parties."""

    input_form = optional(as_given, INPUT_FORM_HELP)
    input_path = usual("shares", parse_path_of_shares, AT_REST_HELP)


class ChosenModel(Option["SecurityModel | None"]):
    """The field of a security model: a text names the model alone, and a value has its number of parties."""

    def read(self, given: object) -> SecurityModel | bool | None:
        """Return the model, or None if there is nothing; raise OptionError for one that there is not."""
        if given is None or isinstance(given, str):
            return super().read(given)
        from fairshares.harness.security_models import SecurityModel, get_model

        if isinstance(given, SecurityModel):
            return get_model(given.name, given.parties)
        return super().read(given)


class Trust(Options):
    """The security model of the parties that compute, and how many there are.

    The model has so many parties; the number is None where it is the model's usual number. Without a model,
    the number is for the model to be chosen.
    [test: tests/harness/test_numbers_of_parties.py]
    """

    security = ChosenModel(parse_model, "see `./inv security`; default: ring if available, else mpyc")
    parties = optional(
        parse_parties,
        "how many parties compute, in semi2k, spdz2k (2 to 16), shamir, mpyc (3 to 16) and malicious-shamir "
        "(3, 5, .., 15); default: the model's usual number",
    )

    @property
    def model(self) -> SecurityModel:
        """The chosen model; OptionError if none was chosen, as for a plan of all models."""
        if self.security is None:
            raise OptionError(f"No security model is chosen; name one by {named('security')}.")
        return self.security

    def _settle(self, given: Collection[str]) -> None:
        model = self.security
        if model is None:
            return
        # A model of another number than its usual one comes with it, unless a number is given, too.
        if self.parties is not None and (model.stated_parties is None or "parties" in given):
            model = model.with_parties(self.parties)
        vars(self).update(security=model, parties=model.stated_parties)


class AccountOptions(Options):
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


class Where(Options):
    """The directories of a run's files and of its noise, and its time limit."""

    out = OUT
    timeout = usual("600", parse_seconds, "seconds that the parties may take")
    stock = optional(
        parse_path,
        "the directory of noise made ahead, by --preprocess, for --offline; default: stock, beside the "
        "ledger",
    )


class ChosenPartyNoise(NamedTuple):
    """Noise that each party adds by itself.

    Attributes:
        distribution: The distribution of the honest parties' sum.
        parties: The number of parties.
        tolerated: How many of them may be corrupt.
    """

    distribution: NoiseDistribution
    parties: int
    tolerated: int


class RevealInSeries(NamedTuple):
    """A reveal of those that a task declares.

    Attributes:
        task: The name of the task.
        number: The reveal's number, from 1 on.
    """

    task: str
    number: int


class BesideTraining(Enum):
    """The use of a release beside a training's model, from which its part of the budget follows."""

    WEIGHING = "weighs the records on which the model is trained, from a part of the model's budget"
    DECIDING = "decides by the model's scores of clients whom training does not see, with the model's budget"


class Request(Options):
    """A release: what is revealed, about whom, and with which guarantee.

    A release offers those fields of each part for which it has a use.

    Attributes:
        task: The name of the release and of its command.
        protocols: The names of its protocols by variant, the default first.
        slots: The name of the protocol where clients are the privacy unit, if there is another one.
        online: Whether clients can send to a run.
        capped_variants: The variants that a contribution bound may be chosen for, the default first; () if
            there is no choice.
        beside_training: The use of the release beside a training's model; None if it is not released there.
    """

    task: ClassVar[str]
    protocols: ClassVar[Mapping[str, str]]
    slots: ClassVar[str] = ""
    online: ClassVar[bool] = False
    capped_variants: ClassVar[Sequence[str]] = ()
    beside_training: ClassVar[BesideTraining | None] = None

    protect = OptionGroup(Protect, without=("cap", "cap_epsilon"), privacy_unit=RECORDS_ALONE)
    randomness = OptionGroup(Randomness, without=("noise", "offline"))
    inputs = OptionGroup(Inputs, without=("input_form",))
    trust = OptionGroup(Trust)
    population = optional(
        parse_population,
        "whose records these are, a name of your choice, which is charged; none: nobody counts",
    )

    @property
    def security(self) -> SecurityModel | None:
        """The chosen security model, of the chosen number of parties; None if no model was chosen."""
        return self.trust.security

    @property
    def model(self) -> SecurityModel:
        """The chosen security model; OptionError if none was chosen."""
        return self.trust.model

    @property
    def labels_named(self) -> Sequence[str]:
        """The labels that the request names, which the records have to have."""
        return ()

    @property
    def chain_name(self) -> str | None:
        """The name of the chain of runs that spend ε once, with this one; None if it is of no chain."""
        return None

    @property
    def series(self) -> RevealInSeries | None:
        """The reveal of a task that this run is; None if it is none.

        The runs of a series have a loss together, for any number of runs up to the declared one, and may
        count the same clients.
        """
        return None

    @property
    def charged_with(self) -> str | None:
        """The chain, or the task of the reveals, whose runs spend ε once; None if this one spends alone."""
        return self.chain_name if self.series is None else self.series.task

    def spending(self, guarantee: Guarantee) -> Self:
        """Return a copy with another budget."""
        return self.but(Protect.epsilon, guarantee.epsilon).but(Protect.delta, guarantee.delta)

    @classmethod
    def programs(cls) -> dict[str, ProtocolSpec]:
        """Return all protocols of the release by name, as `SPECS` in its `spec.py` lists them."""
        specs: Sequence[ProtocolSpec] = in_module(f"fairshares.harness.releases.{cls.task}.spec:SPECS")()
        return {spec.name: spec for spec in specs}

    @classmethod
    def specs(cls) -> dict[str, ProtocolSpec]:
        """Return its protocols by variant, the default first."""
        programs = cls.programs()
        return {variant: programs[name] for variant, name in cls.protocols.items()}

    @classmethod
    def input_forms(cls) -> dict[str, InputForm]:
        """Return all input encodings of its protocols, by name."""
        forms: dict[str, InputForm] = {}
        for spec in cls.programs().values():
            forms.update(spec.input_forms)
        return forms

    @property
    def spec(self) -> ProtocolSpec:
        """The protocol that runs.

        Where clients are the unit and shares wait for the run, it counts slots unless another encoding is
        chosen.
        """
        from fairshares.protocols.spec import CLIENTS, SLOTS

        of_clients = self.protect.of_clients and self.inputs.input_path is not CLIENTS
        form = self.inputs.input_form or (SLOTS.name if of_clients else "")
        if self.slots and form == SLOTS.name:
            return self.programs()[self.slots]
        return next(iter(self.specs().values()))

    @property
    def form(self) -> InputForm:
        """The input encoding; raises OptionError if the protocol lacks it."""
        return chosen_form(self.spec.input_forms, self.inputs.input_form, self.inputs.input_path)

    def program_of(self, spec: ProtocolSpec) -> ProtocolSpec:
        """Return a protocol with this noise and input path, or raise OptionError."""
        from fairshares.protocols.spec import REPLICATED, with_distributed_noise, with_noise_made_ahead

        self.randomness.check_family()
        distribution = self.randomness.distribution
        if self.randomness.offline:
            ahead: ProtocolSpec | None = None
            if distribution is None:
                ahead = with_noise_made_ahead(spec, self.form)
            if ahead is None:
                raise OptionError(
                    f"{named('offline')} is for joint noise, and not for replicated shares, which lie where "
                    "the noise would; leave it out, or leave out what asks for these or for other noise."
                )
            return ahead
        if distribution is None:
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
        exchangeable = self.protect.of_clients and self.form.exchangeable
        return exchangeable and self.model.tolerates == "active"

    @property
    def own(self) -> ChosenPartyNoise | None:
        """The noise that each party adds by itself; None for joint noise."""
        distribution = self.randomness.distribution
        if distribution is None:
            return None
        return ChosenPartyNoise(distribution, self.model.parties, self.model.corruptions)

    @property
    def needs_smaller_table(self) -> str:
        """The change, besides more ε, that makes a party's noise smaller, for messages; "" for none."""
        return "a smaller cap" if self.protect.of_clients else ""

    def check_unit(self) -> None:
        """Raise OptionError if the privacy unit and the input encoding do not go together.

        No client is protected if no encoding keeps it to a cap, and slots are only of clients with a cap.
        """
        if not any(form.capped for form in self.spec.input_forms.values()):
            parse_choice("privacy_unit", str(self.protect.privacy_unit), ["record"])
        if self.form.shares_bits and not self.protect.of_clients:
            raise OptionError(
                f"Input form {self.form.name} has a place for each of the records to which a cap keeps a "
                f"client: say {named('privacy_unit', 'client')} with {named('cap', 10)}, for example, or "
                f"leave out {named('input_form')}."
            )

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:
        """Return the chosen relation or the default; errors as `relation_for`."""
        from fairshares.harness.inputs.encoding import relation_for

        protect = self.protect
        return relation_for(domain, self.form, protect.neighboring_relation, protect.privacy_unit)

    def neighbors_in(self, domain: RecordDomain) -> Neighbors:
        """Return the neighbors that noise is made for; errors as `relation_for`."""
        from fairshares.protocols.accounting.calibration import Neighbors

        return Neighbors(
            self.relation_in(domain), domain.cap.slots if domain.cap else 1, self.malleable_slots
        )

    def also_needed(self) -> Sequence[Request]:
        """Return the requests of further releases that the model has to support, else this one has no use."""
        return ()

    def with_domain_of(self, file: Path) -> Self:  # noqa: ARG002
        """Return the request with the options that a file of a domain states, in place of its own.

        Raises RecordDomainError for a file without a domain.
        """
        return self

    def to_json(self) -> dict[str, str]:
        """Return the fields with values, for `request_from_json`."""
        fields = {"task": self.task}
        for name in self.declared:
            text = as_text(self.value_of(name))
            if text:
                fields[name] = text
        return fields


def no_place(spec: ProtocolSpec) -> OptionError:
    """Return the error of a protocol that cannot add distributed noise."""
    others = in_module("fairshares.harness.releases.registry:with_distributed_noise")()()
    return OptionError(
        f"{spec.name} has no place for distributed noise ({named('noise', DISTRIBUTED)}); leave it out, or "
        f"choose a release that adds noise to sums: {', '.join(others)}."
    )


def chosen_form(forms: Mapping[str, InputForm], name: str | None, path: InputPath) -> InputForm:
    """Return the input encoding of this name, or the first, by this path."""
    chosen = next(iter(forms))
    if name:
        chosen = parse_choice("input_form", name, list(forms))
    return forms[chosen].by(path)


def distribution_of(noise: str) -> NoiseDistribution | None:
    """Return the distribution of distributed noise's sum; None for joint noise."""
    from fairshares.protocols.noise.added import NoiseDistribution

    if noise == DISTRIBUTED:
        return NoiseDistribution.LAPLACE
    if noise == DISTRIBUTED_GAUSSIAN:
        return NoiseDistribution.GAUSSIAN
    return None
