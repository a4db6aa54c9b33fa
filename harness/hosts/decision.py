"""Decides what a host takes part in, from its owner's rules, its ledger's state and the request alone.

Nothing here reads a file, a clock or a socket, and nothing elsewhere in this package decides about a policy:
`policy.py` reads the rules, `guard.py` asks at each step of a run with all that is known by then, and the
ledger asks once more within the transaction that writes the charge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from fairshares.harness.errors import FairSharesError, PolicyError, named
from fairshares.harness.privacy.ledger.populations import (
    LEDGER_RULES,
    LedgerState,
    PrivacyEvent,
    key_of,
    listed,
    refuse_late_rule,
    spent_text,
)
from fairshares.harness.system.spelling import similar
from fairshares.protocols.accounting.rounding import exact_text
from fairshares.protocols.guarantee import Budget, Guarantee

ANY = "*"  # the name of a table for all populations
UNNAMED = "unnamed"  # the population of clients that send to a run without one


class Ground(StrEnum):
    """The field of a policy that refuses a request, or the ledger."""

    COORDINATORS = "coordinators"
    PORT = "port"
    ATTEMPTS = "attempts"
    BENCHMARK = "benchmark"
    BENCHMARK_SECURITY = "benchmark_security"
    BENCHMARK_PROGRAMS = "benchmark_programs"
    POPULATION = "population"
    TASKS = "tasks"
    SECURITY = "security"
    UNIT = "unit"
    CHAINS = "chains"
    UPLOAD_TASKS = "upload_tasks"
    RELATION = "relation"
    EPSILON_PER_RUN = "epsilon_per_run"
    DELTA_PER_RUN = "delta_per_run"
    LEDGER = "ledger"


@dataclass(frozen=True)
class Rule:
    """The allowed runs on one population.

    Attributes:
        name: The population's name, or `ANY`.
        total: The most that all runs on it may spend.
        stated_per_run: The most of one run as the policy states it, which may exceed the total.
        tasks: The names of the allowed tasks.
        security: The names of the allowed security models.
        unit: The name of the only allowed unit; None for any.
        relation: The name of the only allowed neighboring relation; None for any.
        chains: Whether runs may be of a chain.
        upload_tasks: The digests of the tasks whose uploads count; without any, uploads of any task count.
    """

    name: str
    total: Guarantee
    stated_per_run: Guarantee
    tasks: tuple[str, ...]
    security: tuple[str, ...]
    unit: str | None = None
    relation: str | None = None
    chains: bool = False
    upload_tasks: tuple[str, ...] = ()

    @property
    def per_run(self) -> Guarantee:
        """The most that one run may spend: the smaller of the stated bound and the total."""
        return Guarantee(
            epsilon=min(self.stated_per_run.epsilon, self.total.epsilon),
            delta=min(self.stated_per_run.delta, self.total.delta),
        )

    @property
    def budget(self) -> Budget:
        """The budget of all runs, as the ledger keeps it."""
        return Budget(self.total.epsilon, self.total.delta)

    @property
    def notice(self) -> str:
        """A sentence with both numbers if the stated bound of a run exceeds the total, else ""."""
        pairs = (
            ("epsilon", self.stated_per_run.epsilon, self.total.epsilon),
            ("delta", self.stated_per_run.delta, self.total.delta),
        )
        parts = [
            f"{name}_per_run = {exact_text(stated)} but {name} = {exact_text(total)} in total"
            for name, stated, total in pairs
            if stated > total
        ]
        if not parts:
            return ""
        both = ", and ".join(parts)
        return f"Population {self.name!r} has {both}: a run may spend the smaller number at most."


@dataclass(frozen=True)
class HostRules:
    """Everything that a host's owner decides.

    Attributes:
        rules: A rule for each population; a rule for `ANY` stands alone.
        coordinators: The coordinators in whose runs the host takes part; None for everybody.
        benchmark: Whether it takes part in benchmark runs.
        benchmark_security: Names of models for these; None for those that any rule accepts.
        benchmark_programs: The digests of coordinators' own programs that it runs in these.
        port: The port at which the host's party listens.
        client_port: The port at which the host's gateway listens, and at the next port its virtual machine;
            None for no clients.
        attempts: The most attempts to make one piece of noise.
    """

    rules: tuple[Rule, ...]
    coordinators: tuple[str, ...] | None = None
    benchmark: bool = False
    benchmark_security: tuple[str, ...] | None = None
    benchmark_programs: tuple[str, ...] = ()
    port: int = 0
    client_port: int | None = None
    attempts: int = 10

    @property
    def models_of_benchmarks(self) -> tuple[str, ...]:
        """The models in which it takes part in benchmark runs, if it does at all."""
        if self.benchmark_security is not None:
            return self.benchmark_security
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.security))

    def rule_of(self, population: str) -> Rule | None:
        """Return the rule for a population, None without one."""
        for rule in self.rules:
            if key_of(rule.name) in (ANY, key_of(population)):
                return rule
        return None


@dataclass(frozen=True)
class Contact:
    """Any request: it asks for nothing but an answer."""


@dataclass(frozen=True)
class Ports:
    """A port to listen on, as `port` or as the two of `client_port`; no port is always allowed."""

    field: str
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Attempt:
    """A further attempt to make a piece of noise ahead, by its number."""

    number: int


@dataclass(frozen=True)
class Benchmark:
    """A benchmark run, or samples of noise, in a model; without one, a measurement of links.

    Attributes:
        model: The name of the model.
        program: The digest of a program of the coordinator's own; None for what every host has.
    """

    model: str | None
    program: str | None = None


@dataclass(frozen=True)
class Release:
    """A run on people's records, or the noise for one, with what is known of it by now.

    Attributes:
        population: The population's name, as the coordinator gives it; None without a name.
        chain: The chain that it is of, if it is of one.
        clients_send: Whether clients send while it runs, so that no upload is counted later.
        upload_task: The digest of the task of its uploads; None before they are read, or without any.
        event: The event that the run would charge; None before it follows from the run's inputs.
    """

    task: str
    model: str
    unit: str
    population: str | None = None
    chain: str | None = None
    clients_send: bool = False
    upload_task: str | None = None
    event: PrivacyEvent | None = None

    @property
    def charged_to(self) -> str | None:
        """The population that the ledger charges.

        Uploads need none: the ledger knows used ones, and refuses them a second time without one.
        """
        return self.population or (UNNAMED if self.clients_send else None)


@dataclass(frozen=True)
class Look:
    """A question in advance: whether the host takes part in any runs of a model."""

    model: str


Action = Contact | Look | Ports | Attempt | Benchmark | Release


@dataclass(frozen=True)
class Permitted:
    """The request is allowed. `rule` is the one for a release's population."""

    rule: Rule | None = None


@dataclass(frozen=True)
class Refused:
    """The request is refused, on a ground, in one sentence for the coordinator and the owner."""

    ground: Ground
    sentence: str
    error: type[FairSharesError] = PolicyError


Decision = Permitted | Refused


def decide(rules: HostRules, coordinator: str, action: Action, ledger: LedgerState | None = None) -> Decision:
    """Decide whether a host takes part in what a coordinator asks.

    `ledger` is the state for a release with an event, None while only the policy is asked.

    Guarantees: the answer follows from the arguments alone. A run is refused if it exceeds its population's
    total or its own bound, with or without a population; all runs of a population stay within its total.
    More knowledge of a release allows no more of them.
    [test: tests/harness/hosts/test_decision.py]
    """
    refused = _refused_coordinator(rules, coordinator)
    if refused is not None:
        return refused
    match action:
        case Contact():
            return Permitted()
        case Look():
            return _refused_model(rules, action) or Permitted()
        case Ports():
            return _refused_ports(rules, action) or Permitted()
        case Attempt():
            return _refused_attempt(rules, action) or Permitted()
        case Benchmark():
            return _refused_benchmark(rules, action) or Permitted()
        case Release():
            found = _rule_for(rules, action, ledger)
            return found if isinstance(found, Refused) else Permitted(found)


def release_rule(
    rules: HostRules, coordinator: str, release: Release, ledger: LedgerState | None = None
) -> Rule:
    """Return the rule by which a host takes part in a release, as `decide`; raise a refused one's error."""
    found = _refused_coordinator(rules, coordinator) or _rule_for(rules, release, ledger)
    if isinstance(found, Refused):
        raise found.error(found.sentence)
    return found


def allowed(decision: Decision) -> Rule | None:
    """Return the rule of an allowed request, None if it is of none; raise a refused one's error."""
    if isinstance(decision, Refused):
        raise decision.error(decision.sentence)
    return decision.rule


def _refused_coordinator(rules: HostRules, coordinator: str) -> Refused | None:
    if rules.coordinators is None or coordinator in rules.coordinators:
        return None
    who = f"{coordinator!r}" if coordinator else "this ssh key, whose command names nobody,"
    return Refused(
        Ground.COORDINATORS,
        f"Its policy lets {who} start nothing (coordinators); ask its owner to name the coordinator "
        "in authorized_keys and in policy.toml.",
    )


def _refused_model(rules: HostRules, action: Look) -> Refused | None:
    models = {name for rule in rules.rules for name in rule.security}
    if rules.benchmark:
        models.update(rules.models_of_benchmarks)
    if not rules.rules or action.model in models:
        return None
    return Refused(
        Ground.SECURITY,
        f"Its policy accepts runs of {listed(sorted(models))} only, not of {action.model!r} (security); "
        "choose another model, or ask its owner to add this one.",
    )


def _refused_ports(rules: HostRules, action: Ports) -> Refused | None:
    own: tuple[int, ...] = (rules.port,)
    if action.field == "client_port":
        own = () if rules.client_port is None else (rules.client_port, rules.client_port + 1)
    if not action.ports or action.ports == own:
        return None
    where = f"{action.field} = {own[0]}" if own else f"no {action.field}"
    return Refused(
        Ground.PORT,
        f"Its policy has {where}, and it was asked to listen on {action.ports[0]}; correct hosts.toml, "
        "or ask its owner.",
    )


def _refused_attempt(rules: HostRules, action: Attempt) -> Refused | None:
    if action.number <= rules.attempts:
        return None
    return Refused(
        Ground.ATTEMPTS,
        f"Its policy has attempts = {rules.attempts}, and this would be attempt {action.number} to make "
        "this noise; find out why the others failed, and ask its owner to allow more.",
    )


def _refused_benchmark(rules: HostRules, action: Benchmark) -> Refused | None:
    if not rules.benchmark:
        return Refused(
            Ground.BENCHMARK,
            "Its policy allows no benchmark runs; ask its owner to put benchmark = true at the top of "
            "policy.toml, above the first table.",
        )
    models = rules.models_of_benchmarks
    if action.model is None or action.model in models:
        return _refused_program(rules, action)
    accepted = f"of {listed([*models])} only" if models else "of no model"
    return Refused(
        Ground.BENCHMARK_SECURITY,
        f"Its policy allows benchmark runs {accepted}, not of {action.model!r}; choose another model, or ask "
        "its owner to add this one to benchmark_security, or to security of a table, in policy.toml.",
    )


def _refused_program(rules: HostRules, action: Benchmark) -> Refused | None:
    if action.program is None or action.program in rules.benchmark_programs:
        return None
    return Refused(
        Ground.BENCHMARK_PROGRAMS,
        f"Its policy does not allow this program in {action.model}; its owner may allow it, with these "
        f'options alone, by benchmark_programs = ["{action.program}"] at the top of policy.toml, above the '
        "first table.",
    )


def _rule_for(rules: HostRules, action: Release, ledger: LedgerState | None) -> Rule | Refused:
    """Return the rule by which a release is allowed, or why it is refused."""
    population = action.population or UNNAMED
    rule = rules.rule_of(population)
    if rule is None:
        known = [named_rule.name for named_rule in rules.rules]
        return Refused(
            Ground.POPULATION,
            f"Its policy names no population {population[:100]!r}{similar(population, known)}; correct "
            f"{named('population')}, or ask its owner to add it.",
        )
    refused = (
        _refused_kind(rule, action)
        or _refused_uploads(rule, action.upload_task)
        or _refused_loss(rule, action.event)
        or _refused_by_ledger(rule, action, ledger)
    )
    return refused or rule


def _refused_kind(rule: Rule, action: Release) -> Refused | None:
    asked: tuple[tuple[Ground, str, Sequence[str]], ...] = (
        (Ground.TASKS, action.task, rule.tasks),
        (Ground.SECURITY, action.model, rule.security),
        (Ground.UNIT, action.unit, [action.unit if rule.unit is None else rule.unit]),
    )
    for ground, value, accepted in asked:
        if value not in accepted:
            return Refused(
                ground,
                f"Its policy does not allow {value!r} for population {rule.name!r} ({ground}: "
                f"{listed([*accepted])}); ask its owner, or choose another one.",
            )
    if action.chain is not None and not rule.chains:
        return Refused(
            Ground.CHAINS,
            f"Its policy allows no chains for population {rule.name!r}; ask its owner for chains = true "
            f"in its table, if these clients share each record once, or leave out {named('chain')}: each "
            "run is then charged.",
        )
    return None


def _refused_uploads(rule: Rule, task: str | None) -> Refused | None:
    if task is None or not rule.upload_tasks or task in rule.upload_tasks:
        return None
    return Refused(
        Ground.UPLOAD_TASKS,
        f"Its policy names other tasks for population {rule.name!r} than {task}, which its uploads are "
        "for; ask its owner to add this one to upload_tasks, or to bring other uploads.",
    )


def _refused_loss(rule: Rule, event: PrivacyEvent | None) -> Refused | None:
    if event is None:
        return None
    if rule.relation is not None and event.relation != rule.relation:
        return Refused(
            Ground.RELATION,
            f"Its policy wants relation = {rule.relation!r} for population {rule.name!r}, this run would be "
            f"under {str(event.relation)!r}; choose it by "
            f"{named('neighboring_relation')} or {named('privacy_unit')}.",
        )
    spent = event.exact
    stated = rule.stated_per_run
    total = rule.total
    limits = (
        (Ground.EPSILON_PER_RUN, "epsilon", spent.epsilon, stated.epsilon, total.epsilon),
        (Ground.DELTA_PER_RUN, "delta", spent.delta, stated.delta, total.delta),
    )
    for ground, name, needed, limit_of_run, limit_of_all in limits:
        if needed > min(limit_of_run, limit_of_all):
            most = f"{ground} = {exact_text(limit_of_run)}"
            if limit_of_all < limit_of_run:
                most = f"{name} = {exact_text(limit_of_all)}, the total of all runs"
            return Refused(
                ground,
                f"Its policy allows a run on population {rule.name!r} {most}; this one "
                f"needs {spent_text(spent)}. Ask for less with {named('epsilon')} or {named('delta')}.",
            )
    return None


def _refused_by_ledger(rule: Rule, action: Release, ledger: LedgerState | None) -> Refused | None:
    event = action.event
    name = action.charged_to
    if event is None or ledger is None:
        return None
    budget = rule.budget if name is not None else None
    try:
        if ledger.population is not None and budget is not None:  # the owner may have changed the total
            refuse_late_rule(ledger.population, budget)
            ledger = replace(ledger, population=replace(ledger.population, budget=budget))
        LEDGER_RULES.check_charge(ledger, name, budget, event)
    except FairSharesError as error:
        return Refused(Ground.LEDGER, str(error), type(error))
    return None
