"""`policy.toml`, in which a host's owner limits its party's runs; the ledger counts the loss.

`decision.py` decides by what is read here.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

from fairshares.harness.errors import OptionError, PolicyError
from fairshares.harness.hosts.decision import (
    ANY,
    Action,
    HostRules,
    Release,
    Rule,
    allowed,
    decide,
    release_rule,
)
from fairshares.harness.privacy.ledger.populations import LedgerState, key_of, listed
from fairshares.harness.releases.registry import OF_UPLOADS
from fairshares.harness.request.readers import SHA256
from fairshares.harness.security_models import MODELS, model_titled
from fairshares.harness.system.documents import Refusal, as_type, read_toml
from fairshares.harness.system.files import create_file, scratch_directory, write_whole
from fairshares.harness.system.places import is_exposed
from fairshares.harness.system.spelling import similar
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounding import exact_number
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonObject, JsonValue

DEFAULT_PORT = 12000
MOST_PROGRAM_SECONDS = 10**9  # seconds of a coordinator's program
# Files in the host's directory.
POLICY_FILE = "policy.toml"
LEDGER = "ledger.sqlite"
STOCK = "stock"  # the folder of noise made ahead
COMMAND = "./inv hosts.policy"
_DEFAULT = """\
# What this host's party takes part in. Its owner decides; whoever starts a run cannot change it.
# `./inv hosts.policy --directory DIR` checks this file, and shows what has been spent of it.

# coordinators = ["alice"]       # whose runs: the names at the end of forced commands in authorized_keys.
                             # Without this line, of everybody who can start the agent.
# client_port = 12100        # where clients find it that send while it runs; without this line, it takes none
# attempts = 3               # how often noise may be begun before a piece of it is done: 10 without this line
# benchmark = true           # takes part in their benchmark runs, on synthetic records: these take time, and
                             # reveal how fast this host and its network are. Without this line, in none.
# benchmark_security = ["ring"]  # the models of these; without this line, those that a table below accepts
# benchmark_programs = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
                             # coordinators' own programs in these, as a refusal names them. Without it, none
# benchmark_program_seconds = 600  # the most time of each of these programs; without this line, an hour

[[population]]               # one table for each; a limit is a number, or a text as "1/3" or "2^-40"
name = "*"                   # any, under whatever name; no other table may stand beside it
epsilon = 10                 # over all runs on the same people
delta = "2^-30"
epsilon_per_run = 4          # without these two lines, a run may spend all of it
delta_per_run = "2^-36"
# Each model is another program that reads what the other parties' owners send: see `./inv security`.
# Its name means its usual number of parties; others are named as "semi2k of 5 parties".
security = {models}
# tasks = ["weights"]        # {tasks}; without this line, all
# unit = "client"            # or "record"; without this line, either
# relation = "zero_out_one"  # or "add_or_remove_one", "replace_one"; without this line, any
# chains = true              # runs of a chain spend ε once together, as these clients share each record once.
                             # Without this line, there are no chains
# upload_tasks = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]  # whose uploads count
                             # Without this line, those of any task that is there
"""
_WAY_OUT = f"correct it, or see what one may say by {COMMAND}"


def first_policy(models: Sequence[str]) -> str:
    """Return the text of a host's first policy, which accepts these models and no other."""
    return _DEFAULT.replace("{models}", json.dumps([*models])).replace("{tasks}", ", ".join(OF_UPLOADS))


_Limit = int | float | str
_LimitName = Literal["epsilon", "delta", "epsilon_per_run", "delta_per_run"]
PopulationEntry = TypedDict(  # noqa: UP013  # the keys that the file has of a population, no fields of this code
    "PopulationEntry",
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
# In the file, and in what `to_json` returns, "" is any unit, relation or bound of a run, and 0 is no port of
# clients, as in version 1.0. All other code says None.
_ANY = ""
_NO_PORT = 0
_UNLESS_GIVEN: dict[str, JsonValue] = {
    "epsilon_per_run": _ANY,
    "delta_per_run": _ANY,
    "tasks": [*OF_UPLOADS],
    "security": [*MODELS],
    "unit": _ANY,
    "relation": _ANY,
    "chains": False,
    "upload_tasks": [],
}


def _rule(table: PopulationEntry) -> Rule:
    """Return the rule that a table states. Raises PolicyError for a value that the table may not have."""
    total = Guarantee(_limit(table, "epsilon"), _limit(table, "delta"))
    stated = Guarantee(
        epsilon=_limit(table, "epsilon_per_run") if table["epsilon_per_run"] != _ANY else total.epsilon,
        delta=_limit(table, "delta_per_run") if table["delta_per_run"] != _ANY else total.delta,
    )
    check_names("task", table["tasks"], [*OF_UPLOADS])
    check_models(table["security"])
    check_names("unit", [table["unit"]], [_ANY, *PrivacyUnit])
    check_names("relation", [table["relation"]], [_ANY, *NeighboringRelation])
    for name in table["upload_tasks"]:
        if not SHA256.fullmatch(name):
            raise PolicyError(
                f"upload_tasks of population {table['name']!r} must be names of tasks, of 64 hexadecimal "
                f"digits, as ./inv task prints them; got {name[:80]!r}."
            )
    return Rule(
        name=table["name"],
        total=total,
        stated_per_run=stated,
        tasks=tuple(table["tasks"]),
        security=tuple(table["security"]),
        unit=table["unit"] or None,
        relation=table["relation"] or None,
        chains=table["chains"],
        upload_tasks=tuple(table["upload_tasks"]),
    )


def _rule_to_json(rule: Rule) -> JsonObject:
    """Return a table of a policy with all limits of a population."""
    return {
        "epsilon_per_run": str(rule.per_run.epsilon),
        "delta_per_run": str(rule.per_run.delta),
        "tasks": [*rule.tasks],
        "security": [*rule.security],
        "unit": _ANY if rule.unit is None else rule.unit,
        "relation": _ANY if rule.relation is None else rule.relation,
        "chains": rule.chains,
        "upload_tasks": [*rule.upload_tasks],
        "name": rule.name,
        "epsilon": str(rule.total.epsilon),
        "delta": str(rule.total.delta),
    }


def check_names(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Raise PolicyError for a name that this version does not know."""
    names = [str(name) for name in known if name]
    for name in given:
        if name not in known:
            raise PolicyError(
                f"There is no {what} {name!r}{similar(name, names)}; it is one of {listed(names)}."
            )


def check_models(given: Sequence[str]) -> None:
    """Raise PolicyError for a title of a model that this version does not know."""
    of_other_numbers = [title for title in given if _is_title(title)]
    check_names("security model", given, [*MODELS, *of_other_numbers])


def _is_title(text: str) -> bool:
    """Return whether a text is the title of a model, such as `semi2k of 5 parties`."""
    try:
        return model_titled(text).title == text
    except (OptionError, ValueError):
        return False


def _limit(table: PopulationEntry, name: _LimitName) -> Fraction:
    """Return a limit of a table as an exact number, or raise PolicyError."""
    text = str(table[name])
    limit = exact_number(text)
    if name.startswith("delta"):
        bounds = "a number above 0 and below 1"
        example = '"2^-40"'
        is_within = limit is not None and 0 < limit < 1
    else:
        bounds = "a number above 0"
        example = "1"
        is_within = limit is not None and limit > 0
    if limit is None or not is_within:
        raise PolicyError(
            f"{name} of population {table['name']!r} must be {bounds}, for example {example}; got {text!r}."
        )
    return limit


@dataclass(frozen=True)
class Policy:
    """The allowed runs; docs/how-to/own-a-host.md explains the fields."""

    population: list[PopulationEntry]
    coordinators: list[str] | None = None
    benchmark: bool = False
    port: int = DEFAULT_PORT
    client_port: int = _NO_PORT
    attempts: int = 10
    benchmark_security: list[str] | None = None
    benchmark_programs: list[str] | None = None
    benchmark_program_seconds: int = 3600

    def __post_init__(self) -> None:
        for name, number in (("port", self.port), ("client_port", self.client_port)):
            if number not in range(1 << 16):
                raise PolicyError(f"{name} must be a number up to 65535, for example 12000; got {number}.")
        check_models(self.benchmark_security or [])
        for digest in self.benchmark_programs or []:
            if not SHA256.fullmatch(digest):
                raise PolicyError(
                    "benchmark_programs must be digests of programs, of 64 hexadecimal digits, as the "
                    f"refusal of a program names its own; got {digest[:80]!r}."
                )
        if not 1 <= self.benchmark_program_seconds <= MOST_PROGRAM_SECONDS:
            raise PolicyError(
                f"benchmark_program_seconds must be a whole number from 1 to {MOST_PROGRAM_SECONDS:,}, for "
                f"example 3600; got {self.benchmark_program_seconds:,}."
            )
        keys = [key_of(rule.name) for rule in self.host_rules.rules]
        twice = [rule.name for rule in self.host_rules.rules if keys.count(key_of(rule.name)) > 1]
        if twice:
            raise PolicyError(f"population {twice[0]!r} has two tables; leave one.")
        if ANY in keys and len(keys) > 1:
            raise PolicyError(
                "'*' allows what the other tables forbid, to whoever names another population; leave out its "
                "table, or all others."
            )

    @cached_property
    def host_rules(self) -> HostRules:
        """The rules by which `decision.decide` decides."""
        benchmark_security = None
        if self.benchmark_security is not None:
            benchmark_security = tuple(self.benchmark_security)
        return HostRules(
            rules=tuple(_rule(table) for table in self.population),
            coordinators=None if self.coordinators is None else tuple(self.coordinators),
            benchmark=self.benchmark,
            benchmark_security=benchmark_security,
            benchmark_programs=tuple(self.benchmark_programs or ()),
            port=self.port,
            client_port=self.client_port or None,
            attempts=self.attempts,
        )

    @property
    def notices(self) -> list[str]:
        """A sentence for each table whose bound of a run exceeds its total."""
        return [rule.notice for rule in self.host_rules.rules if rule.notice]

    def to_json(self) -> JsonObject:
        """Return the policy with all limits, by which it works."""
        rules = self.host_rules
        return {
            "coordinators": self.coordinators,
            "benchmark": self.benchmark,
            "benchmark_security": [*rules.models_of_benchmarks] if self.benchmark else [],
            "benchmark_programs": [*rules.benchmark_programs],
            "benchmark_program_seconds": self.benchmark_program_seconds,
            "port": self.port,
            "client_port": self.client_port,
            "attempts": self.attempts,
            "population": [_rule_to_json(rule) for rule in rules.rules],
            "notices": self.notices,
        }


def no_host(directory: Path) -> OptionError:
    """Return the error for a directory that is no host's."""
    return OptionError(f"{directory} is no host's directory; name the one with its {POLICY_FILE}.")


def check_is_host(directory: Path) -> None:
    """Raise OptionError for a directory without a policy, which is no host's."""
    if not (directory / POLICY_FILE).exists():
        raise no_host(directory)


def read_policy(directory: Path) -> Policy:
    """Return a host's policy; PolicyError if it is missing, invalid, or others can change it."""
    path = directory / POLICY_FILE
    if not path.is_file():
        raise PolicyError(
            f"It has no policy, so it runs nothing of another's: its owner writes one there by {COMMAND} "
            f"--directory {directory}, or, of all hosts at once, by ./inv hosts.setup."
        )
    if is_exposed(path):
        raise PolicyError(f"Others can change {path}; make it its owner's alone, by chmod go-w.")
    return checked_policy(path, str(path))


def ask_owner(
    directory: Path, coordinator: str, action: Action, ledger: LedgerState | None = None
) -> Rule | None:
    """Return the rule by which a host's policy allows an action, or None if no population is concerned.

    The policy is read each time, so that an owner's change counts at once.

    Raises PolicyError, or as `decision.allowed`.
    """
    return allowed(decide(read_policy(directory).host_rules, coordinator, action, ledger))


def ask_about_release(
    directory: Path, coordinator: str, release: Release, ledger: LedgerState | None = None
) -> Rule:
    """Return the rule by which a host's policy, as it is now, allows a release.

    Raises PolicyError, or as `decision.release_rule`.
    """
    return release_rule(read_policy(directory).host_rules, coordinator, release, ledger)


def checked_policy(path: Path, called: str) -> Policy:
    """Return the policy in a file. Raises PolicyError, in which the file has the name `called`."""
    refusal = Refusal(PolicyError, called, "a policy", _WAY_OUT)
    fields = read_toml(path, refusal)
    tables = fields.get("population")
    if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
        fields["population"] = [_UNLESS_GIVEN | table for table in tables]
    return as_type(Policy, fields, refusal)


def write_policy(directory: Path, text: str, port: int | None = None, client_port: int | None = None) -> None:
    """Write a policy, if it is valid.

    Args:
        directory: The host's own directory.
        text: The policy.
        port: The port of the party, if the text has none; None for the default one.
        client_port: The port of the gateway, if the text has none; None for no gateway.

    Raises:
        PolicyError: The text is no valid policy.
    """
    with scratch_directory(directory) as partial:
        create_file(partial / POLICY_FILE, text.encode())
        checked_policy(partial / POLICY_FILE, POLICY_FILE)
    stated = tomllib.loads(text)
    added = ""  # before the text, as lines after a table would belong to the table
    for name, number in (("port", port), ("client_port", client_port)):
        if number is not None and name not in stated:
            added += f"{name} = {number}\n"
    write_whole(directory / POLICY_FILE, (added + text).encode())
