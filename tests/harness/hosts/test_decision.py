"""What a host's owner allows, against a second implementation that knows only the pages' words.

`Naive` reads the policy as its file has it, and keeps the ledger as a list of runs. It collects every reason
to refuse a request, where the code stops at the first: a request is allowed if there is none, and the code's
reason is among them.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairshares.harness.charged import Chargeable
from fairshares.harness.errors import FairSharesError, PolicyError
from fairshares.harness.hosts.decision import (
    Action,
    Attempt,
    Benchmark,
    Contact,
    Decision,
    Ground,
    HostRules,
    Look,
    Permitted,
    Ports,
    Refused,
    Release,
    allowed,
    decide,
)
from fairshares.harness.hosts.policy import POLICY_FILE, Policy, read_policy
from fairshares.harness.privacy.ledger.charge import Account, Entry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import (
    Charge,
    LedgerState,
    Population,
    PrivacyEvent,
    RunChain,
    Status,
    Use,
)
from fairshares.harness.security_models import MODELS as ALL_MODELS
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Budget, Guarantee
from tests.support.sharing import policies_of

TASKS, MODELS = ("weights", "gap", "count"), ("ring", "mpyc", "semi2k")
UNITS = ("record", "client")
RELATIONS = ("add_or_remove_one", "replace_one")
NAMES = ("loans", "Visits", "unnamed")
UPLOADS = ("a1", "a2", "a3", "a4")
TASKS_OF_UPLOADS = ("a" * 64, "b" * 64)
PROGRAMS = ("c" * 64, "d" * 64)
COORDINATORS = ("alice", "bob", "")
EPSILONS = ("1/4", "1/2", "1", "2", "4")
DELTAS = ("1/1000", "1/100", "1/10")
LOSSES = ("1/10", "1/10", "1/10", *EPSILONS)
NOWHERE = Path("/nowhere")

Table = dict[str, Any]
Fields = dict[str, Any]


def fewer(draw: Random, names: tuple[str, ...]) -> list[str]:
    """Return some of the names."""
    return draw.sample(names, draw.randint(0, len(names)))


def random_table(draw: Random, name: str) -> Table:
    """Return a `[[population]]`, where most fields may be left out."""
    table: Table = {"name": name, "epsilon": draw.choice(EPSILONS), "delta": draw.choice(DELTAS)}
    optional: dict[str, Any] = {
        "epsilon_per_run": draw.choice(EPSILONS),
        "delta_per_run": draw.choice(DELTAS),
        "tasks": fewer(draw, TASKS),
        "security": fewer(draw, MODELS),
        "unit": draw.choice(UNITS),
        "relation": draw.choice(RELATIONS),
        "chains": draw.random() < 0.7,
        "upload_tasks": fewer(draw, TASKS_OF_UPLOADS),
    }
    for key, value in optional.items():
        if draw.random() < (0.6 if key in ("epsilon_per_run", "delta_per_run", "chains") else 0.15):
            table[key] = value
    return table


def random_fields(draw: Random, of_1_0: bool) -> Fields:
    """Return a policy as its file has it. `of_1_0` leaves out what version 1.0 did not know."""
    names = ["*"] if draw.random() < 0.6 else draw.sample(NAMES, draw.randint(0, 2))
    fields: Fields = {"population": [random_table(draw, name) for name in names]}
    if draw.random() < 0.1:
        fields["coordinators"] = fewer(draw, COORDINATORS)
    if draw.random() < 0.7:
        fields["benchmark"] = draw.random() < 0.8
    if draw.random() < 0.3:
        fields["client_port"] = 12100
    if draw.random() < 0.3:
        fields["attempts"] = 3
    if not of_1_0 and draw.random() < 0.3:
        fields["benchmark_security"] = fewer(draw, MODELS)
    if not of_1_0 and draw.random() < 0.3:
        fields["benchmark_programs"] = fewer(draw, PROGRAMS)
    return fields


def policy_text(fields: Fields) -> str:
    """Return the file of a policy."""

    def value(one: Any) -> str:
        if isinstance(one, bool):
            return "true" if one else "false"
        if isinstance(one, list):
            return "[" + ", ".join(map(value, one)) + "]"
        return f'"{one}"' if isinstance(one, str) else str(one)

    top = {name: one for name, one in fields.items() if name != "population"}
    if not fields["population"]:
        top["population"] = []
    lines = [f"{name} = {value(one)}" for name, one in top.items()]
    for table in fields["population"]:
        lines += ["[[population]]", *(f"{name} = {value(one)}" for name, one in table.items())]
    return "\n".join(lines) + "\n"


def read(fields: Fields) -> Policy:
    """Return the policy that the file of these fields has."""
    given_up: Table = {
        "epsilon_per_run": "",
        "delta_per_run": "",
        "tasks": ["weights", "confusion", "thresholds", "gap", "count", "cap", "sums"],
        "security": [*ALL_MODELS],
        "unit": "",
        "relation": "",
        "chains": False,
        "upload_tasks": [],
    }
    tables: list[Any] = [given_up | table for table in fields["population"]]
    return Policy(**{**fields, "population": tables})


def random_event(draw: Random) -> PrivacyEvent:
    """Return what a run would reveal."""
    uploads = tuple(sorted(fewer(draw, UPLOADS))) if draw.random() < 0.6 else ()
    policies = {
        upload: ClientPolicy(
            tuple(fewer(draw, TASKS)) or TASKS,
            Guarantee(Fraction(draw.choice(EPSILONS[2:])), Fraction(draw.choice(DELTAS[1:]))),
            PrivacyUnit(draw.choice(UNITS)),
        )
        for upload in uploads
        if draw.random() < 0.08
    }
    return PrivacyEvent(
        task=draw.choice(TASKS),
        model=draw.choice(MODELS),
        exact=Guarantee(Fraction(draw.choice(LOSSES)), Fraction(draw.choice(("1/10000", *DELTAS)))),
        unit=PrivacyUnit(draw.choice((*UNITS, *["record"] * 8))),
        relation=NeighboringRelation(draw.choice((*RELATIONS, *[RELATIONS[0]] * 8))),
        out=NOWHERE,
        uploads=uploads,
        policies=policies_of(policies),
        piece=f"piece-{draw.randint(0, 9)}" if draw.random() < 0.1 else None,
    )


def random_action(draw: Random) -> Action:
    """Return what a coordinator asks for, most often a whole release."""
    kind = draw.random()
    if kind < 0.02:
        return Contact()
    if kind < 0.04:
        return Look(draw.choice(MODELS))
    if kind < 0.07:
        client_ports = draw.choice(((12100, 12101), (12100, 12102), (12000, 12001), ()))
        ports = draw.choice(((12000,), (12001,), ()))
        return Ports("client_port", client_ports) if draw.random() < 0.5 else Ports("port", ports)
    if kind < 0.09:
        return Attempt(draw.randint(1, 12))
    if kind < 0.15:
        model = draw.choice((*MODELS, None))
        return Benchmark(model, draw.choice((None, *PROGRAMS)) if model else None)
    event = random_event(draw)
    chain = draw.choice(("c1", "c2")) if draw.random() < 0.3 else None
    if chain:
        event = replace(event, chain=RunChain(chain, draw.choice(("d1", "d1", "d2"))))
    return Release(
        task=event.task,
        model=event.model,
        unit=str(event.unit),
        population=draw.choice((*NAMES, "LOANS", None)),
        chain=chain,
        clients_send=draw.random() < 0.2,
        upload_task=draw.choice((*TASKS_OF_UPLOADS, None)),
        event=event,
    )


def is_of_one_chain(first: PrivacyEvent, second: PrivacyEvent) -> bool:
    """Return whether two runs are of a chain of the same name."""
    if first.chain is None or second.chain is None:
        return False
    return first.chain.name == second.chain.name


@dataclass
class Run:
    """A run that was charged, as a naive ledger has it."""

    population: str | None
    event: PrivacyEvent
    uploads: set[str] = field(default_factory=set)


@dataclass
class Naive:
    """A host by the words of its pages: the fields of its policy, and its runs so far."""

    fields: Fields
    runs: list[Run] = field(default_factory=list)
    of_1_0: bool = False

    def table_of(self, population: str) -> Table | None:
        """Return the table for a population: its own, whatever its case, or that for any."""
        for table in self.fields["population"]:
            if table["name"] == "*" or table["name"].lower() == population.lower():
                return table
        return None

    def grounds(self, coordinator: str, action: Action) -> set[Ground]:
        """Return all grounds to refuse a request."""
        found = set()
        fields = self.fields
        if "coordinators" in fields and coordinator not in fields["coordinators"]:
            found.add(Ground.COORDINATORS)
        if isinstance(action, Look) and fields["population"]:
            known = {model for table in fields["population"] for model in table.get("security", MODELS)}
            if fields.get("benchmark"):
                known |= self.models_of_benchmarks()
            if action.model not in known:
                found.add(Ground.SECURITY)
        if isinstance(action, Ports) and action.ports:
            own = [12000]
            if action.field == "client_port":
                own = [fields["client_port"], fields["client_port"] + 1] if "client_port" in fields else []
            if [*action.ports] != own:
                found.add(Ground.PORT)
        if isinstance(action, Attempt) and action.number > fields.get("attempts", 10):
            found.add(Ground.ATTEMPTS)
        if isinstance(action, Benchmark):
            if not fields.get("benchmark", False):
                found.add(Ground.BENCHMARK)
            known = {None, *self.models_of_benchmarks()}
            if action.model not in known and not self.of_1_0:
                found.add(Ground.BENCHMARK_SECURITY)
            if action.program is not None and action.program not in fields.get("benchmark_programs", []):
                found.add(Ground.BENCHMARK_PROGRAMS)
        if isinstance(action, Release):
            found |= self.grounds_of_release(action)
        return found

    def models_of_benchmarks(self) -> set[str]:
        """Return the models in which it takes part in benchmark runs."""
        if "benchmark_security" in self.fields:
            return set(self.fields["benchmark_security"])
        return {model for table in self.fields["population"] for model in table.get("security", MODELS)}

    def grounds_of_release(self, asked: Release) -> set[Ground]:
        """Return all grounds to refuse a release."""
        table = self.table_of(asked.population or "unnamed")
        if table is None:
            return {Ground.POPULATION}
        found = set()
        if asked.task not in table.get("tasks", TASKS):
            found.add(Ground.TASKS)
        if asked.model not in table.get("security", MODELS):
            found.add(Ground.SECURITY)
        if table.get("unit", asked.unit) != asked.unit:
            found.add(Ground.UNIT)
        if asked.chain is not None and not table.get("chains", False):
            found.add(Ground.CHAINS)
        wanted = table.get("upload_tasks", [])
        if wanted != [] and asked.upload_task is not None and asked.upload_task not in wanted:
            found.add(Ground.UPLOAD_TASKS)
        event = asked.event
        if event is None:
            return found
        if table.get("relation", str(event.relation)) != str(event.relation):
            found.add(Ground.RELATION)
        for name, spent, ground in (
            ("epsilon", event.exact.epsilon, Ground.EPSILON_PER_RUN),
            ("delta", event.exact.delta, Ground.DELTA_PER_RUN),
        ):
            most = [Fraction(str(table.get(f"{name}_per_run", table[name])))]
            if not self.of_1_0:
                most.append(Fraction(table[name]))
            if any(spent > limit for limit in most):
                found.add(ground)
        if self.ledger_refuses(asked, event, table):
            found.add(Ground.LEDGER)
        return found

    def charged_to(self, asked: Release) -> str | None:
        """Return the population that is charged, in one spelling."""
        if asked.population is not None:
            return asked.population.lower()
        return "unnamed" if asked.clients_send else None

    def ledger_refuses(self, asked: Release, event: PrivacyEvent, table: Table) -> bool:
        """Return whether the runs so far leave no room for one more."""
        name, uploads = self.charged_to(asked), set(event.uploads)
        earlier = [run for run in self.runs if run.uploads & uploads]
        if event.piece and any(run.event.piece == event.piece for run in self.runs):
            return True
        for upload, policy in ({} if event.policies is None else event.policies.own).items():
            spent = [run.event.exact for run in self.runs if upload in run.uploads] + [event.exact]
            if event.task not in policy.tasks:
                return True
            if policy.unit == "client" and event.unit != "client":
                return True
            if sum(one.epsilon for one in spent) > policy.total.epsilon:
                return True
            if sum(one.delta for one in spent) > policy.total.delta:
                return True
        if name is None:
            return bool(earlier) or event.chain is not None
        if event.chain is not None and not uploads:
            return True
        if any(run.population not in (None, name) for run in earlier):
            return True
        same = [run for run in self.runs if run.population == name]
        same += [run for run in earlier if run.population is None]
        if any((run.event.unit, run.event.relation) != (event.unit, event.relation) for run in same):
            return True
        for run in same:
            if is_of_one_chain(run.event, event):
                if run.uploads & uploads:
                    return True
                terms = [(one.task, one.model, one.exact, one.chain) for one in (run.event, event)]
                if terms[0] != terms[1]:
                    return True
        paid = [run for run in same if not is_of_one_chain(run.event, event)]
        epsilon = sum((run.event.exact.epsilon for run in paid), event.exact.epsilon)
        delta = sum((run.event.exact.delta for run in paid), event.exact.delta)
        return epsilon > Fraction(table["epsilon"]) or delta > Fraction(table["delta"])

    def charge(self, asked: Release, event: PrivacyEvent) -> None:
        """Add an allowed run."""
        name, uploads = self.charged_to(asked), set(event.uploads)
        for run in self.runs:
            if name is not None and run.population is None and run.uploads & uploads:
                run.population = name
        for run in self.runs:
            if run.population == name and is_of_one_chain(run.event, event):
                run.uploads |= uploads
                if event.piece:  # a run of a chain marks its piece, too
                    self.runs.append(Run("", replace(event, exact=Guarantee(Fraction(0), Fraction(0)))))
                return
        if name is not None or uploads or event.piece:
            self.runs.append(Run(name, event, uploads))

    def spent(self, name: str) -> Guarantee:
        """Return all that was spent on a population."""
        runs = [run for run in self.runs if run.population == name]
        return Guarantee(
            sum((run.event.exact.epsilon for run in runs), Fraction(0)),
            sum((run.event.exact.delta for run in runs), Fraction(0)),
        )

    def state(self, asked: Action) -> LedgerState | None:
        """Return what a ledger of these runs would say for a request."""
        if not isinstance(asked, Release) or asked.event is None:
            return None
        event, name = asked.event, self.charged_to(asked)
        charges = {
            number: Charge(**vars(run.event), id=number, time="", status=Status.DONE)
            for number, run in enumerate(self.runs, 1)
        }
        own = tuple(charges[i] for i, run in enumerate(self.runs, 1) if run.population == name)
        last: dict[int, list[str]] = {}
        for upload in event.uploads:
            numbers = [i for i, run in enumerate(self.runs, 1) if upload in run.uploads]
            if numbers:
                last.setdefault(numbers[-1], []).append(upload)
        uses = []
        for number, uploads in sorted(last.items()):
            of = self.runs[number - 1].population
            uses.append(Use(number, of, of or "", "", len(uploads), min(uploads)))
        pieces = [i for i, run in enumerate(self.runs, 1) if event.piece and run.event.piece == event.piece]
        totals = {}
        for upload in () if event.policies is None else event.policies.uploads:
            spent = [run.event.exact for run in self.runs if upload in run.uploads]
            if spent:
                totals[upload] = sum(spent, Guarantee(Fraction(0), Fraction(0)))
        counted = frozenset(
            upload
            for run in self.runs
            for upload in run.uploads & set(event.uploads)
            if event.chain is not None
            and (is_of_one_chain(run.event, event) or run.population not in (None, name))
        )
        return LedgerState(
            path=NOWHERE,
            population=Population(name, None, own) if name is not None and own else None,
            uses=tuple(uses),
            uncounted=tuple(charges[use.charge] for use in uses if use.key is None) if name else (),
            counted=counted,
            noise_used_by=pieces[0] if pieces else None,
            spent_on=totals,
        )


def worlds(draw: Random, decisions: int, of_1_0: bool = False) -> Iterator[tuple[Naive, str, Action]]:
    """Yield hosts with requests, a dozen each; whoever takes one charges it if it is allowed.

    Half way the owner writes another policy: the ledger keeps what was charged by the first.
    """
    done = 0
    while done < decisions:
        host = Naive(random_fields(draw, of_1_0))
        for number in range(12):
            if number == 6:
                host.fields = random_fields(draw, of_1_0)
            done += 1
            yield host, draw.choice(COORDINATORS), random_action(draw)


def check_against_the_naive(decisions: int) -> None:
    seed = secrets.randbits(64)
    draw, refused_by = Random(seed), dict.fromkeys(Ground, 0)
    allowed_runs = 0
    for host, coordinator, action in worlds(draw, decisions):
        rules = read(host.fields).host_rules
        decision = decide(rules, coordinator, action, host.state(action))
        grounds = host.grounds(coordinator, action)
        about = f"seed {seed}: {host}, {coordinator!r}, {action}: {decision}, {grounds}"
        if isinstance(decision, Refused):
            assert decision.ground in grounds, about
            assert "\n" not in decision.sentence and decision.sentence.endswith("."), about
            refused_by[decision.ground] += 1
            continue
        assert not grounds, about
        if isinstance(action, Release) and action.event is not None:
            check_totals_and_charge(host, action, action.event, decision, about)
            allowed_runs += 1
        check_less_knowledge_allows_it(host, coordinator, action, about)
    assert all(refused_by.values()), f"seed {seed}: {refused_by}"
    assert allowed_runs > decisions / 50, f"seed {seed}: {allowed_runs} runs were allowed"


def check_totals_and_charge(
    host: Naive, action: Release, event: PrivacyEvent, decision: Permitted, about: str
) -> None:
    """Charge an allowed run, and see what it and its population have spent."""
    assert decision.rule is not None, about
    assert event.exact.within(decision.rule.total) and event.exact.within(decision.rule.per_run), about
    host.charge(action, event)
    name = host.charged_to(action)
    if name is not None:
        assert host.spent(name).within(decision.rule.total), about


def check_less_knowledge_allows_it(host: Naive, coordinator: str, action: Action, about: str) -> None:
    """A run that is allowed in the end was allowed at each earlier step."""
    if isinstance(action, Release):
        rules = read(host.fields).host_rules
        for earlier in (replace(action, event=None), replace(action, event=None, upload_task=None)):
            assert isinstance(decide(rules, coordinator, earlier), Permitted), about


def test_the_decision_is_the_naive_one() -> None:
    check_against_the_naive(4_000)


def test_the_decision_is_the_naive_one_in_a_hundred_thousand_cases() -> None:
    check_against_the_naive(100_000)


def test_policies_of_1_0_are_read_and_allow_no_more_than_they_did() -> None:
    """Whatever the ledger has: by the same runs so far, each request that is allowed was allowed before."""
    seed = secrets.randbits(64)
    fewer_than_before = 0
    for host, coordinator, action in worlds(Random(seed), 4_000, of_1_0=True):
        decision = decide(read(host.fields).host_rules, coordinator, action, host.state(action))
        before = replace(host, of_1_0=True).grounds(coordinator, action)
        if isinstance(action, Look):  # version 1.0 asked for no model when it looked
            continue
        if isinstance(decision, Permitted):
            assert not before, f"seed {seed}: {host}, {coordinator!r}, {action}"
            if isinstance(action, Release) and action.event is not None:
                host.charge(action, action.event)
        fewer_than_before += isinstance(decision, Refused) and not before
    assert fewer_than_before, f"seed {seed}"  # else nothing of finding these was tried


def test_a_policys_file_says_what_its_fields_say(tmp_path: Path) -> None:
    draw = Random(secrets.randbits(64))
    for number in range(200):
        fields = random_fields(draw, of_1_0=bool(number % 2))
        (tmp_path / POLICY_FILE).write_text(policy_text(fields))
        (tmp_path / POLICY_FILE).chmod(0o600)
        assert read_policy(tmp_path).host_rules == read(fields).host_rules, policy_text(fields)


@dataclass
class DecidingRules:
    """The rules of a host for one action, as its guard has them, and what they decided."""

    rules: HostRules
    coordinator: str
    action: Release
    said: list[Decision] = field(default_factory=list)

    def check_charge(
        self,
        state: LedgerState,
        name: str | None,
        budget: Budget | None,
        event: PrivacyEvent,
    ) -> None:
        decision = decide(self.rules, self.coordinator, replace(self.action, event=event), state)
        self.said.append(decision)
        allowed(decision)


def test_a_ledgers_file_charges_what_the_naive_one_does(tmp_path: Path) -> None:
    """The state that the decision gets within the transaction is the one that the runs so far make."""
    seed = secrets.randbits(64)
    ledgers: dict[int, Ledger] = {}
    hosts = []  # kept, so that no two have one number
    charged = 0
    for host, coordinator, action in worlds(Random(seed), 600):
        if not isinstance(action, Release) or action.event is None:
            continue
        if id(host) not in ledgers:
            hosts.append(host)
            ledgers[id(host)] = Ledger(tmp_path / f"{len(hosts)}.sqlite")
        rules, event = read(host.fields).host_rules, action.event
        asked = DecidingRules(rules, coordinator, action)
        rule = rules.rule_of(action.population or "unnamed")
        budget = None
        if rule is not None and action.charged_to is not None:
            budget = Budget(rule.total.epsilon, rule.total.delta)
        account = Account(ledgers[id(host)], action.charged_to, budget, asked)
        grounds = host.grounds(coordinator, action)
        about = f"seed {seed}: {host}, {coordinator!r}, {action}, {grounds}"
        try:
            Entry(account).check(event)
            Entry(account).charge(event, Chargeable())
        except FairSharesError:
            assert grounds, about
        else:
            if asked.said:  # a run of nobody, without uploads and noise made ahead, leaves no trace
                assert not grounds, about
                host.charge(action, event)
                charged += 1
    assert charged > 5, f"seed {seed}"


def test_a_total_bounds_a_run_without_a_population() -> None:
    """The policy that is shipped, with a smaller total: a run of nobody went through at 3.9."""
    fields: Fields = {"population": [{"name": "*", "epsilon": "1", "delta": "1/100", "epsilon_per_run": "4"}]}
    policy = read({**fields, "population": [{**fields["population"][0], "delta_per_run": "1/10"}]})
    for population in ("loans", None):
        for epsilon, delta, ground in (
            ("39/10", "1/1000", Ground.EPSILON_PER_RUN),
            ("1", "1/50", Ground.DELTA_PER_RUN),
        ):
            event = replace(
                random_event(Random(0)),
                exact=Guarantee(Fraction(epsilon), Fraction(delta)),
                uploads=(),
                policies=None,
                piece=None,
            )
            asked = Release(event.task, event.model, str(event.unit), population, event=event)
            refused = decide(policy.host_rules, "", asked, LedgerState(NOWHERE))
            assert isinstance(refused, Refused) and refused.ground is ground
            assert "the total of all runs" in refused.sentence
    assert policy.notices == [
        "Population '*' has epsilon_per_run = 4 but epsilon = 1 in total, and delta_per_run = 0.1 but "
        "delta = 0.01 in total: a run may spend the smaller number at most."
    ]


def test_benchmarks_run_in_models_that_a_table_accepts_or_the_owner_names() -> None:
    table: Table = {"name": "loans", "epsilon": "1", "delta": "1/100", "security": ["ring"]}
    fields: Fields = {"benchmark": True, "population": [table]}
    for given, models in (
        ({}, {"ring"}),
        ({"benchmark_security": ["mpyc"]}, {"mpyc"}),
        ({"population": []}, set()),
        ({"population": [], "benchmark_security": ["semi2k"]}, {"semi2k"}),
        ({"benchmark": False}, set()),
    ):
        rules = read(fields | given).host_rules
        taken = {model for model in MODELS if isinstance(decide(rules, "", Benchmark(model)), Permitted)}
        assert taken == models
    with pytest.raises(PolicyError, match="benchmark runs of 'ring' only, not of 'mpyc'"):
        allowed(decide(read(fields).host_rules, "", Benchmark("mpyc")))
    with pytest.raises(PolicyError, match="There is no security model 'rign'"):
        read(fields | {"benchmark_security": ["rign"]})
    for digest in ("", "*", "a" * 63, "A" * 64, f"{'a' * 64}\n"):
        with pytest.raises(PolicyError, match="benchmark_programs must be digests of programs"):
            read(fields | {"benchmark_programs": [digest]})
    assert read(fields).benchmark_program_seconds == 3600
    for seconds in (0, -1, 10**9 + 1):
        with pytest.raises(PolicyError, match=f"benchmark_program_seconds must be .* got {seconds:,}"):
            read(fields | {"benchmark_program_seconds": seconds})
