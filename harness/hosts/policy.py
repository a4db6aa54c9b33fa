"""What a host's party takes part in: `policy.toml`, by the host's owner. No starter of runs can change it.

Limits stand here only; what was spent of them is in the host's own ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from harness.errors import PolicyError
from harness.pipeline.terms import Asked
from harness.privacy.ledger.populations import PrivacyEvent, key_of, listed, spent_text
from harness.releases.registry import STATISTICS
from harness.security_models import MODELS
from harness.system.documents import Refusal, as_type, read_toml
from harness.system.files import changed_by_others, create_file, scratch_directory
from harness.system.spelling import similar
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.accounting.rounding import exact_number, exact_text
from protocols.guarantee import Budget

DEFAULT_PORT = 12000
FILE, LEDGER = "policy.toml", "ledger.sqlite"  # in the host's directory
ANY = "*"  # stands for all populations
UNNAMED = "unnamed"  # the population of clients that send to a run that names none
COMMAND = "./inv hosts.policy"
DEFAULT = """\
# What this host's party takes part in. Its owner decides; whoever starts a run cannot change it.
# `./inv hosts.policy --directory DIR` checks this file, and shows what has been spent of it.

# starters = ["alice"]       # whose runs: the names at the end of forced commands in authorized_keys.
                             # Without this line, of everybody who can start the agent.
# client_port = 12100        # where clients find it that send while it runs; without this line, it takes none
# benchmark = true           # takes part in their benchmark runs, on synthetic records: these take time, and
                             # reveal how fast this host and its network are. Without this line, in none.

[[population]]               # one table for each; a limit is a number, or a text as "1/3" or "2^-40"
name = "*"                   # any, under whatever name; no other table may stand beside it
epsilon = 10                 # over all runs on the same people
delta = "2^-30"
epsilon_per_run = 4          # without these two lines, a run may spend all of it
delta_per_run = "2^-36"
# tasks = ["weights"]        # weights, confusion, thresholds, gap, count, cap; without this line, all
# models = ["ring"]          # see `./inv schemes`; without this line, all
# unit = "client"            # or "record"; without this line, either
# relation = "zero_out_one"  # or "add_or_remove_one", "replace_one"; without this line, any
"""
_WAY_OUT = f"correct it, or see what one may say by {COMMAND}"


@dataclass(frozen=True)
class Rule:
    """What may be run on one population.

    Attributes: epsilon, delta: over all runs; epsilon_per_run, delta_per_run: the same as these unless
    given; tasks, models: all unless given; unit, relation: any unless given.
    """

    name: str
    epsilon: int | float | str
    delta: int | float | str
    epsilon_per_run: int | float | str = ""
    delta_per_run: int | float | str = ""
    tasks: list[str] = field(default_factory=lambda: list(STATISTICS))
    models: list[str] = field(default_factory=lambda: list(MODELS))
    unit: str = ""
    relation: str = ""

    def __post_init__(self) -> None:
        for name, below in (("epsilon", None), ("delta", 1), ("epsilon_per_run", None), ("delta_per_run", 1)):
            text = str(getattr(self, name))
            found = exact_number(text)
            if (text or not name.endswith("run")) and (
                found is None or found <= 0 or (below is not None and found >= below)
            ):
                example = "1" if below is None else '"2^-40"'
                raise PolicyError(
                    f"{name} of population {self.name!r} must be a number above 0"
                    f"{' and below 1' if below else ''}, for example {example}; got {text!r}."
                )
        _check_known("task", self.tasks, STATISTICS)
        _check_known("model", self.models, MODELS)
        _check_known("unit", [self.unit] if self.unit else [], list(PrivacyUnit))
        _check_known("relation", [self.relation] if self.relation else [], list(NeighboringRelation))

    @property
    def budget(self) -> Budget:
        """What all runs together may spend."""
        return Budget(_exact(self.epsilon), _exact(self.delta))

    @property
    def per_run(self) -> Budget:
        """What one run may spend."""
        return Budget(_exact(self.epsilon_per_run or self.epsilon), _exact(self.delta_per_run or self.delta))


@dataclass(frozen=True)
class Policy:
    """What a host takes part in.

    Attributes: population: a rule for each; starters: None: of everybody; benchmark: whether in runs on
    made-up records; port: where its party listens; client_port: where clients find it, 0 if it takes none.
    """

    population: list[Rule]
    starters: list[str] | None = None
    benchmark: bool = False
    port: int = DEFAULT_PORT
    client_port: int = 0

    def __post_init__(self) -> None:
        for name in ("port", "client_port"):
            if (number := getattr(self, name)) not in range(1 << 16):
                raise PolicyError(f"{name} must be a number up to 65535, for example 12000; got {number}.")
        keys = [key_of(rule.name) for rule in self.population]
        twice = [rule.name for rule in self.population if keys.count(key_of(rule.name)) > 1]
        if twice:
            raise PolicyError(f"population {twice[0]!r} has two tables; leave one.")
        if ANY in keys and len(keys) > 1:
            raise PolicyError(
                "'*' allows what the other tables forbid, to whoever names another population; leave out its "
                "table, or all others."
            )

    def to_json(self) -> dict[str, Any]:
        """Return what it says, with all limits, as rationals."""
        rules = [
            {
                **asdict(rule),
                **{name: str(limit) for name, limit in vars(rule.budget).items()},
                **{f"{name}_per_run": str(limit) for name, limit in vars(rule.per_run).items()},
            }
            for rule in self.population
        ]
        ports = {"port": self.port, "client_port": self.client_port}
        return {"starters": self.starters, "benchmark": self.benchmark, **ports, "population": rules}

    def check_ports(self, port: int | None = None, client_ports: Sequence[int] = ()) -> None:
        """Raise PolicyError unless the owner has the party listen there. Args: client_ports: two or none."""
        own = [self.client_port, self.client_port + 1] if self.client_port else []
        for name, asked, allowed in (
            ("port", [] if port is None else [port], [self.port]),
            ("client_port", list(client_ports), own),
        ):
            if asked and asked != allowed:
                where = f"{name} = {allowed[0]}" if allowed else f"no {name}"
                raise PolicyError(
                    f"Its policy has {where}, and it was asked to listen on {asked[0]}; correct hosts.toml, "
                    "or ask its owner."
                )

    def check_starter(self, starter: str) -> None:
        """Raise PolicyError unless somebody may start runs. Args: whom the host's command line names."""
        if self.starters is not None and starter not in self.starters:
            who = f"{starter!r}" if starter else "this ssh key, whose command names nobody,"
            raise PolicyError(
                f"Its policy lets {who} start nothing (starters); ask its owner to name the starter in "
                "authorized_keys and in policy.toml."
            )

    def check_benchmark(self) -> None:
        """Raise PolicyError unless it takes part in benchmark runs."""
        if not self.benchmark:
            raise PolicyError(
                "Its policy allows no benchmark runs; ask its owner to put benchmark = true at the top of "
                f"{FILE}, above the first table."
            )

    def rule_for(self, asked: Asked) -> Rule:
        """Return the rule that a run comes under, as far as it is known before there are inputs.

        Raises: PolicyError: it does not allow the run.
        """
        rule = self._rule(asked.population or UNNAMED)
        for name, found, allowed in (
            ("tasks", asked.task, rule.tasks),
            ("models", asked.model, rule.models),
            ("unit", asked.unit, [rule.unit or asked.unit]),
        ):
            if found not in allowed:
                raise PolicyError(
                    f"Its policy does not allow {found!r} for population {rule.name!r} ({name}: "
                    f"{listed(allowed)}); ask its owner, or choose another one."
                )
        return rule

    def _rule(self, population: str) -> Rule:
        rules = {key_of(rule.name): rule for rule in self.population}
        found = rules.get(ANY) or rules.get(key_of(population))
        if found is None:
            meant = similar(population, [rule.name for rule in self.population])
            raise PolicyError(
                f"Its policy names no population {population[:100]!r}{meant}; correct --population, or ask "
                "its owner to add it."
            )
        return found


def refuse_beyond(rule: Rule, event: PrivacyEvent) -> None:
    """Raise PolicyError where a run would spend, or protect, what its rule does not allow."""
    if rule.relation and event.relation != rule.relation:
        raise PolicyError(
            f"Its policy wants relation = {rule.relation!r} for population {rule.name!r}, this run would be "
            f"under {str(event.relation)!r}; choose it by --neighboring-relation or --privacy-unit."
        )
    for name, spent, most in (
        ("epsilon_per_run", event.exact.epsilon, rule.per_run.epsilon),
        ("delta_per_run", event.exact.delta, rule.per_run.delta),
    ):
        if most is not None and spent > most:
            raise PolicyError(
                f"Its policy allows a run on population {rule.name!r} {name} = {exact_text(most)}; this one "
                f"needs {spent_text(event.exact)}. Ask for less with --epsilon or --delta."
            )


def read_policy(directory: Path) -> Policy:
    """Return a host's policy. Raises: PolicyError: there is none, others can change it, or it is none."""
    path = directory / FILE
    if not path.is_file():
        raise PolicyError(
            f"It has no policy, so it runs nothing of another's: its owner writes one there by {COMMAND} "
            f"--directory {directory}, or, of all hosts at once, by ./inv hosts.setup."
        )
    if changed_by_others(path):
        raise PolicyError(f"Others can change {path}; make it its owner's alone, by chmod go-w.")
    return checked_policy(path, str(path))


def checked_policy(path: Path, called: str) -> Policy:
    """Return the policy that a file holds. Raises: PolicyError: it makes no sense. Args: called: in that."""
    refusal = Refusal(PolicyError, called, "a policy", _WAY_OUT)
    return as_type(Policy, read_toml(path, refusal), refusal)


def write_policy(directory: Path, text: str, port: int = 0, client_port: int = 0) -> None:
    """Write a host's policy. Raises: PolicyError: it makes no sense; the older one stays then.

    Args: port, client_port: put first, unless they are 0 or the text says others.
    """
    with scratch_directory(directory) as partial:
        create_file(partial / FILE, text.encode())
        checked_policy(partial / FILE, FILE)
        stated = read_toml(partial / FILE, Refusal(PolicyError, FILE, "a policy", _WAY_OUT))
        for name, number in (("client_port", client_port), ("port", port)):
            if number and name not in stated:
                text = f"{name} = {number}\n{text}"
        (partial / FILE).write_text(text, encoding="utf-8")
        (partial / FILE).rename(directory / FILE)


def _exact(limit: int | float | str) -> Fraction:
    found = exact_number(str(limit))
    assert found is not None  # as was checked
    return found


def _check_known(what: str, given: list[str], known: object) -> None:
    names = [str(name) for name in known]  # type: ignore[attr-defined]
    for name in given:
        if name not in names:
            raise PolicyError(
                f"There is no {what} {name!r}{similar(name, names)}; it is one of {listed(names)}."
            )
