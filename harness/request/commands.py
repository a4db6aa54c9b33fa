"""The options of a release's command: its call's options, and options that all releases may have."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.fields import OptionGroup, Options, optional
from fairshares.harness.request.plans import FROM_FILE, Expected
from fairshares.harness.request.readers import parse_path
from fairshares.harness.request.releases import Invited, ReleaseCall
from fairshares.harness.request.request import PLOT, PREPROCESS

_SIZES = f"({FROM_FILE}|[0-9^e]+)(?:,([0-9^e]+))?"
_MORE = ",(?=(?:network|error|units)=)"


@dataclass(frozen=True)
class AskedPlan:
    """A plan that a command is asked for.

    Attributes:
        name: The whole as users type it.
        sizes: Texts of fields of `fairshares.harness.request.plans.Expected`, "" for what follows from
            records.
    """

    name: str
    sizes: Mapping[str, str]


def parse_plan(text: str, option: str = "plan") -> AskedPlan:
    """Read a plan.

    It begins with clients (`100`), clients and records (`100,300`) or `file`; `network=wan` may follow.
    """
    sizes, *more = re.split(_MORE, text)
    match = re.fullmatch(_SIZES, sizes)
    if match is None:
        raise OptionError(
            f"{named(option)} must be how many clients there would be, and how many records in all if these "
            f"are more, or {FROM_FILE}, for those of {named('records')}; then what else is asked for, as "
            f"network=wan, error=0.01 or units=DIR: for example 100,300,network=wan; got {text!r}."
        )
    asked = {
        "clients": "" if match[1] == FROM_FILE else match[1],
        "records": match[2] or "",
        **dict(part.split("=", 1) for part in more),
    }
    return AskedPlan(text, asked)


class InsteadOfARun(Options):
    """A plan, or noise for later runs, in place of a run."""

    plan = optional(
        parse_plan,
        "say what it would cost and how far off it would be, and run nothing: how many clients there would "
        "be, as 100, and how many records in all, as 100,300; or file, for those of --records; then "
        "network=wan (or lan, or 40ms,100Mbit), error=0.01, units=DIR; groups and labels are numbers then, "
        "or names, with shares of the records if these differ (a:0.7,b:0.3)",
    )
    preprocess = PREPROCESS


def refuse_beside_plan(options: Options) -> None:
    """Raise OptionError if a command that plans has options of runs, too."""
    others = [named(name) for name in options.stated(*options.names_of_runs(), "preprocess")]
    if others:
        raise OptionError(f"{named('plan')} runs nothing: leave out {', '.join(others)}.")


def refuse_beside_noise(options: Options) -> None:
    """Raise OptionError if a command that makes noise ahead has records, or options of runs but the hosts."""
    others = [named(name) for name in options.stated("records", *options.names_of_runs()) if name != "hosts"]
    if others:
        raise OptionError(
            f"{named('preprocess')} makes noise and reads no record: leave out {', '.join(others)}."
        )


class Earlier(Options):
    """Results of earlier runs, with which a command goes on in place of a run.

    Each release that can do so has a subclass with fields of its own, and `cli/commands/earlier.py` does it.
    """

    @classmethod
    def check_given(cls, names: Collection[str]) -> None:
        """Raise OptionError if one of the given options, which have these names, lacks another one."""


class ReleaseOptions(Options):
    """A command's options: its call's options, and others.

    Attributes:
        again: The options that go with earlier results.
        expected: The sizes that a plan of the release may be told.
    """

    again: ClassVar[tuple[str, ...]] = ()
    expected: ClassVar[type[Expected]] = Expected

    call = OptionGroup(ReleaseCall)
    instead = OptionGroup(InsteadOfARun)
    earlier = OptionGroup(Earlier)
    hosts = optional(
        parse_path,
        "a file that describes hosts, of which each runs one party on the shares that it has; the page on "
        "several hosts in the documentation has an example",
    ).but(of_runs=True)
    plot = PLOT

    def __init_subclass__(cls, **changes: Mapping[str, object]) -> None:
        super().__init_subclass__(**changes)
        cls.also = cls.call.kind.also
        cls.prints = f"{cls.task()}.json"

    def __init__(self, **given: object) -> None:
        """Read the options, or refuse a new run's beside earlier results."""
        part = type(self).earlier
        earlier = [name for name in part.options if given.get(name)]
        part.kind.check_given(earlier)
        of_both = {"out", "plot"}.union(earlier, self.again)
        of_new_runs = []
        for name, text in given.items():
            if name in self.declared and name not in of_both:
                is_default = text in ("", False, self.declared[name].default)
                if not is_default:
                    of_new_runs.append(name)
        if earlier and of_new_runs:
            raise OptionError(
                f"{named(of_new_runs[0])} is for a new run, and {named(earlier[0])} for what earlier runs "
                "revealed: leave one of them out."
            )
        super().__init__(**given)
        source = self.call.source
        if source.columns and not source.records:
            raise OptionError(
                f"{named(min(source.columns))} names a column of {named('records')}; give both, or neither."
            )

    @property
    def goes_on(self) -> bool:
        """Whether the command goes on with earlier results, in place of a run."""
        return any(self.earlier.values().values())

    def invited(self) -> Invited | None:
        """Return the clients that are invited to send during the run; None if none are.

        Raises:
            OptionError: They are not described whole.
        """
        return None

    @classmethod
    def task(cls) -> str:
        """Return the name of the command, and of the release."""
        return cls.call.kind.request.kind.task

    @classmethod
    def summary(cls) -> str:
        return cls.call.kind.request.kind.summary()
