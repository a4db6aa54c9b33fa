"""`policy.toml`, in which a host's owner limits its party's runs; the ledger counts the loss."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from harness.errors import PolicyError, named
from harness.privacy.ledger.populations import PrivacyEvent, key_of, listed, spent_text
from harness.request.base import Request
from harness.request.releases import REQUESTS
from harness.security_models import MODELS
from harness.system.documents import Refusal, as_type, read_toml
from harness.system.files import changed_by_others, create_file, scratch_directory, write_whole
from harness.system.spelling import similar
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.accounting.rounding import exact_number, exact_text
from protocols.guarantee import Budget

DEFAULT_PORT = 12000
FILE, LEDGER, STOCK = "policy.toml", "ledger.sqlite", "stock"  # in the host's directory
ANY = "*"  # stands for all populations
UNNAMED = "unnamed"  # population of clients that send to a run without one
COMMAND = "./inv hosts.policy"
DEFAULT = """\
# What this host's party takes part in. Its owner decides; whoever starts a run cannot change it.
# `./inv hosts.policy --directory DIR` checks this file, and shows what has been spent of it.

# coordinators = ["alice"]       # whose runs: the names at the end of forced commands in authorized_keys.
                             # Without this line, of everybody who can start the agent.
# client_port = 12100        # where clients find it that send while it runs; without this line, it takes none
# attempts = 3               # how often noise may be begun before a piece of it is done: 10 without this line
# benchmark = true           # takes part in their benchmark runs, on synthetic records: these take time, and
                             # reveal how fast this host and its network are. Without this line, in none.

[[population]]               # one table for each; a limit is a number, or a text as "1/3" or "2^-40"
name = "*"                   # any, under whatever name; no other table may stand beside it
epsilon = 10                 # over all runs on the same people
delta = "2^-30"
epsilon_per_run = 4          # without these two lines, a run may spend all of it
delta_per_run = "2^-36"
# tasks = ["weights"]        # weights, confusion, thresholds, gap, count, cap; without this line, all
# security = ["ring"]          # see `./inv security`; without this line, all
# unit = "client"            # or "record"; without this line, either
# relation = "zero_out_one"  # or "add_or_remove_one", "replace_one"; without this line, any
# chains = true              # runs of a chain spend ε once together, as these clients share each record once.
                             # Without this line, there are no chains
# upload_tasks = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]  # whose uploads count
                             # Without this line, those of any task that is there
"""
_WAY_OUT = f"correct it, or see what one may say by {COMMAND}"


_Limit = int | float | str
Table = TypedDict(  # noqa: UP013  # the keys that the file has of a population, no fields of this code
    "Table",
    {
        "name": str,
        "epsilon": _Limit,
        "delta": _Limit,
        "epsilon_per_run": _Limit,
        "delta_per_run": _Limit,
        "tasks": list[str],
        "security": list[str],
        "unit": str,
        "relation": str,
        "chains": bool,
        "upload_tasks": list[str],
    },
)
_UNLESS_GIVEN: dict[str, object] = {
    "epsilon_per_run": "",
    "delta_per_run": "",
    "tasks": [*REQUESTS],
    "security": [*MODELS],
    "unit": "",
    "relation": "",
    "chains": False,
    "upload_tasks": [],
}


@dataclass(frozen=True)
class Rule:
    """The allowed runs on one population, and the budgets."""

    table: Table
    budget: Budget
    per_run: Budget

    @property
    def name(self) -> str:
        """The population's."""
        return self.table["name"]


def _rule(table: Table) -> Rule:
    budget = Budget(_limit(table, "epsilon"), _limit(table, "delta"))
    per_run = Budget(
        _limit(table, "epsilon_per_run", budget.epsilon), _limit(table, "delta_per_run", budget.delta)
    )
    for what, given, known in (
        ("task", table["tasks"], [*REQUESTS]),
        ("security model", table["security"], [*MODELS]),
        ("unit", [table["unit"]], ["", *PrivacyUnit]),
        ("relation", [table["relation"]], ["", *NeighboringRelation]),
    ):
        names = [str(name) for name in known if name]
        for name in given:
            if name not in known:
                raise PolicyError(
                    f"There is no {what} {name!r}{similar(name, names)}; it is one of {listed(names)}."
                )
    for name in table["upload_tasks"]:
        if not re.fullmatch("[0-9a-f]{64}", name):
            raise PolicyError(
                f"upload_tasks of population {table['name']!r} must be names of tasks, of 64 hexadecimal "
                f"digits, as ./inv task prints them; got {name[:80]!r}."
            )
    return Rule(table, budget, per_run)


def _limit(table: Mapping[str, Any], name: str, otherwise: Fraction | None = None) -> Fraction:
    text = str(table[name])
    if not text and otherwise is not None:
        return otherwise
    limit, below_1 = exact_number(text), name.startswith("delta")
    if limit is None or limit <= 0 or (below_1 and limit >= 1):
        example = '"2^-40"' if below_1 else "1"
        raise PolicyError(
            f"{name} of population {table['name']!r} must be a number above 0"
            f"{' and below 1' if below_1 else ''}, for example {example}; got {text!r}."
        )
    return limit


@dataclass(frozen=True)
class Policy:
    """The allowed runs; docs/how-to/own-a-host.md explains the fields."""

    population: list[Table]
    coordinators: list[str] | None = None
    benchmark: bool = False
    port: int = DEFAULT_PORT
    client_port: int = 0
    attempts: int = 10

    def __post_init__(self) -> None:
        for name in ("port", "client_port"):
            if (number := getattr(self, name)) not in range(1 << 16):
                raise PolicyError(f"{name} must be a number up to 65535, for example 12000; got {number}.")
        keys = [key_of(rule.name) for rule in self.rules]
        twice = [rule.name for rule in self.rules if keys.count(key_of(rule.name)) > 1]
        if twice:
            raise PolicyError(f"population {twice[0]!r} has two tables; leave one.")
        if ANY in keys and len(keys) > 1:
            raise PolicyError(
                "'*' allows what the other tables forbid, to whoever names another population; leave out its "
                "table, or all others."
            )

    @cached_property
    def rules(self) -> list[Rule]:
        """The rule of each population."""
        return [_rule(table) for table in self.population]

    def to_json(self) -> dict[str, Any]:
        """Return the policy with all limits."""
        return {
            "coordinators": self.coordinators,
            "benchmark": self.benchmark,
            "port": self.port,
            "client_port": self.client_port,
            "attempts": self.attempts,
            "population": [
                {
                    **rule.table,
                    "epsilon": str(rule.budget.epsilon),
                    "delta": str(rule.budget.delta),
                    "epsilon_per_run": str(rule.per_run.epsilon),
                    "delta_per_run": str(rule.per_run.delta),
                }
                for rule in self.rules
            ],
        }

    def check_ports(self, name: str, ports: list[int]) -> None:
        """Raise PolicyError unless the owner has the party listen on these ports, if any.

        `name` is `port`, or `client_port`, which stands for two ports.
        """
        allowed = [self.port]
        if name == "client_port":
            allowed = [self.client_port, self.client_port + 1] if self.client_port else []
        if ports and ports != allowed:
            where = f"{name} = {allowed[0]}" if allowed else f"no {name}"
            raise PolicyError(
                f"Its policy has {where}, and it was asked to listen on {ports[0]}; correct hosts.toml, "
                "or ask its owner."
            )

    def check_attempts(self, attempts: int) -> None:
        """Raise PolicyError if a piece of noise was begun too often."""
        if attempts > self.attempts:
            raise PolicyError(
                f"Its policy has attempts = {self.attempts}, and this would be attempt {attempts} to make "
                "this noise; find out why the others failed, and ask its owner to allow more."
            )

    def check_coordinator(self, coordinator: str) -> None:
        """Raise PolicyError unless this coordinator may start runs."""
        if self.coordinators is not None and coordinator not in self.coordinators:
            who = f"{coordinator!r}" if coordinator else "this ssh key, whose command names nobody,"
            raise PolicyError(
                f"Its policy lets {who} start nothing (coordinators); ask its owner to name the coordinator "
                "in authorized_keys and in policy.toml."
            )

    def check_benchmark(self) -> None:
        """Raise PolicyError unless it allows benchmark runs."""
        if not self.benchmark:
            raise PolicyError(
                "Its policy allows no benchmark runs; ask its owner to put benchmark = true at the top of "
                f"{FILE}, above the first table."
            )

    def rule_for(self, request: Request) -> Rule:
        """Return a request's rule; PolicyError if it forbids the request."""
        population, rules = request.population or UNNAMED, {key_of(rule.name): rule for rule in self.rules}
        rule = rules.get(ANY) or rules.get(key_of(population))
        if rule is None:
            raise PolicyError(
                f"Its policy names no population {population[:100]!r}"
                f"{similar(population, [rule.name for rule in self.rules])}; correct "
                f"{named('population')}, or ask its owner to add it."
            )
        for name, value, allowed in (
            ("tasks", request.task, rule.table["tasks"]),
            ("security", request.security.name, rule.table["security"]),
            ("unit", str(request.privacy_unit), [rule.table["unit"] or str(request.privacy_unit)]),
        ):
            if value not in allowed:
                raise PolicyError(
                    f"Its policy does not allow {value!r} for population {rule.name!r} ({name}: "
                    f"{listed(allowed)}); ask its owner, or choose another one."
                )
        if request.chain and not rule.table["chains"]:
            raise PolicyError(
                f"Its policy allows no chains for population {rule.name!r}; ask its owner for chains = true "
                f"in its table, if these clients share each record once, or leave out {named('chain')}: each "
                "run is then charged."
            )
        return rule


def refuse_beyond(rule: Rule, event: PrivacyEvent) -> None:
    """Raise PolicyError if a rule does not allow a run's loss or relation."""
    relation = rule.table["relation"]
    if relation and event.relation != relation:
        raise PolicyError(
            f"Its policy wants relation = {relation!r} for population {rule.name!r}, this run would be "
            f"under {str(event.relation)!r}; choose it by "
            f"{named('neighboring_relation')} or {named('privacy_unit')}."
        )
    for name, spent, most in (
        ("epsilon_per_run", event.exact.epsilon, rule.per_run.epsilon),
        ("delta_per_run", event.exact.delta, rule.per_run.delta),
    ):
        if most is not None and spent > most:
            raise PolicyError(
                f"Its policy allows a run on population {rule.name!r} {name} = {exact_text(most)}; this one "
                f"needs {spent_text(event.exact)}. Ask for less with "
                f"{named('epsilon')} or {named('delta')}."
            )


def refuse_task(rule: Rule, task: str) -> None:
    """Raise PolicyError if a rule names other tasks of uploads."""
    if rule.table["upload_tasks"] and task not in rule.table["upload_tasks"]:
        raise PolicyError(
            f"Its policy names other tasks for population {rule.name!r} than {task}, which its uploads are "
            "for; ask its owner to add this one to upload_tasks, or to bring other uploads."
        )


def read_policy(directory: Path) -> Policy:
    """Return a host's policy; PolicyError if it is missing, invalid, or others can change it."""
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
    """Return the policy in a file, or raise PolicyError, which calls it `called`."""
    refusal = Refusal(PolicyError, called, "a policy", _WAY_OUT)
    fields = read_toml(path, refusal)
    tables = fields.get("population")
    if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
        fields["population"] = [_UNLESS_GIVEN | table for table in tables]
    return as_type(Policy, fields, refusal)


def write_policy(directory: Path, text: str, port: int = 0, client_port: int = 0) -> None:
    """Write a valid policy, with these ports unless they are 0 or in the text."""
    with scratch_directory(directory) as partial:
        create_file(partial / FILE, text.encode())
        checked_policy(partial / FILE, FILE)
    stated, first = tomllib.loads(text), ""
    for name, number in (("port", port), ("client_port", client_port)):
        if number and name not in stated:
            first += f"{name} = {number}\n"
    write_whole(directory / FILE, (first + text).encode())
