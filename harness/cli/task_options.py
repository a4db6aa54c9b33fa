"""Options of commands that are about a release, which --task names: `plan` and `hosts.run`.

They take the releases' own options as texts, for the class of that release in `release_options` to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from harness.cli.options import (
    CAP,
    CAP_EPSILON,
    CHOSEN_CAP,
    CLIENTS,
    DELTA,
    EPSILON,
    GROUPS,
    HOSTS,
    INPUT_FORM,
    INPUT_PATH_OF_SHARES,
    LABELS,
    LAW,
    MAX_COUNT,
    MODEL,
    NOISE,
    PLOT,
    RELATION,
    STEPS,
    UNIT,
)
from harness.cli.parsers import parse_link
from harness.cli.release_options import OF_ALL, OWN, RELEASES, ReleaseOptions
from harness.errors import OptionError
from harness.request.fields import Option, Options, as_given, optional, switch, usual
from harness.request.readers import in_module, one_of, parse_error, parse_path, parse_shares, whole

MOST_PLANNED = 10**12  # clients, or records
DEFAULT_ERROR = "0.01"


class TaskOptions(Options):
    """What a command takes that is about the release that --task names, whose own options it passes on."""

    first = "task"
    task = usual(
        "weights", one_of(lambda: RELEASES), " or ".join((", ".join([*RELEASES][:-1]), [*RELEASES][-1]))
    )

    def read_by_the_task(self, **others: str | bool) -> ReleaseOptions:
        """Return the release's options. Args: others: that it reads besides its own.

        Raises: OptionError: an own option of another release was given.
        """
        own = {name: text for name, text in self.texts.items() if text and name in OWN}
        for name in own:
            if self.task not in OWN[name]:
                raise OptionError(
                    f"{self.declared[name].flag} goes with --task {' or '.join(OWN[name])}, not with --task "
                    f"{self.task}."
                )
        return RELEASES[self.task](**others, **own)


def _passed_on(said: Mapping[str, str], *left_out: str) -> dict[str, Option[Any]]:
    """Return the releases' own options, as they are passed on. Args: said: help in place of theirs."""
    return {
        name: OF_ALL[name].passed_on(
            said.get(name, f"of {' and '.join(tasks)}: {RELEASES[tasks[0]].declared[name].explained}")
        )
        for name, tasks in OWN.items()
        if name not in left_out
    }


class PlanOptions(TaskOptions):
    """Predict what a release costs in each model, and how large its errors are, before anything runs."""

    from_records = optional(
        parse_path,
        "instead of --clients, --records, --groups and --labels: a file of records, to see whether its "
        "smallest group survives the noise; what is printed is not protected, and for the file's owner only",
    )
    clients = Option[int](whole(1, MOST_PLANNED), "number of clients", example="100", unless="from_records")
    records = optional(whole(1, MOST_PLANNED), "number of records of all clients together; default: one each")
    groups = Option[dict[str, Fraction]](
        parse_shares,
        "a number of groups (2), their names (a,b), or names with shares of the records (a:0.7,b:0.3)",
        example="2",
        unless="from_records",
    )
    labels = optional(parse_shares, "the same for labels; default: 2")
    thresholds = optional(
        whole(2, in_module("harness.inputs.record_schema:MAX_THRESHOLDS")), "how many; default: 1001"
    )
    steps = STEPS
    max_count = MAX_COUNT
    epsilon = EPSILON
    delta = DELTA
    neighboring_relation = RELATION
    privacy_unit = UNIT
    input_form = INPUT_FORM
    input_path = INPUT_PATH_OF_SHARES
    cap = CHOSEN_CAP.but(help=f"{CAP.help}; or auto: π_CAP chooses it first")
    cap_epsilon = CAP_EPSILON
    noise = NOISE
    law = LAW
    model = MODEL.but(help="only this one; default: all")
    network = usual(
        "none",
        parse_link,
        "none (default: all parties on one machine), lan, wan, or a round-trip time and a bandwidth, for "
        "example 40ms,100Mbit",
    )
    error = optional(
        parse_error,
        "target error: prints the ε and the number of records that reach it, for example "
        f"{DEFAULT_ERROR} (default)",
    )
    units = optional(
        parse_path, "directory of unit costs that `./inv bench.units` measured; default: those recorded here"
    )
    plot = PLOT
    json = switch("print JSON")

    @property
    def chooses_cap(self) -> bool:
        """Whether a first release is to choose the cap."""
        return self.texts["cap"] == "auto"


_PLANNED = _passed_on(
    {"variant": "of thresholds, or a cap for them: histogram (default), records or published"},
    *(
        "arrivals",
        "threshold",
        "curves",
        "constraint",
        "objective",
        "tolerance",
        "deterministic",
        "positive_label",
    ),
)
PlanOptions.declared = {**PlanOptions.declared, **_PLANNED}


class HostsRunOptions(TaskOptions):
    """Run a release on shares, or on what clients send, each party on its own host."""

    also = "--task weights --epsilon 1"

    def of_the_release(self) -> ReleaseOptions:
        """Return what the release takes. Raises: OptionError: an option is of another one."""
        return self.read_by_the_task(
            **{name: text for name, text in self.texts.items() if name in ReleaseOptions.declared}
        )


def _of_hosts() -> dict[str, Option[Any]]:
    """Return the options of all releases that make sense on hosts, for the release that is run to read."""
    invited: dict[str, Option[Any]] = {
        "groups": GROUPS,
        "labels": LABELS,
        "max_count": MAX_COUNT,
        "clients": CLIENTS,
    }
    said = {
        **{name: f"of {' and '.join(tasks)}; see `./inv {tasks[0]} --help`" for name, tasks in OWN.items()},
        **{name: f"with --invite: {option.explained}" for name, option in invited.items()},
        "model": "see `./inv schemes`; default: ring on three hosts or more, semi2k on two",
        "invite": "of weights, instead of shares: a new directory on this machine for the clients' "
        "invitations, by which each sends to the hosts during the run",
        "domain": "JSON file with the domain of the uploads (default: that of most of them) or, with "
        "--invite, of the clients' records",
        "cap": f"with --invite and {CAP.help.removeprefix('with ')}",
        "input_form": "as the shares were made; with --invite, as clients are to send; default: split",
        "input_path": "as the shares were made: shares (default, additive) or replicated, of which any two "
        "hosts hold all, but none can change one",
        "clients_per_upload": "the most clients in one upload, 1 if each uploads for itself; default: any",
        **dict.fromkeys(("arrivals", "horizon"), "of weights on one machine: hosts refuse a series, so far"),
    }
    of_all = {**OF_ALL, **ReleaseOptions.declared}
    of_records = ("records", "shares", "threshold", "curves", "range", "steps", "cap_epsilon")
    found = {name: option.passed_on(said.get(name, option.explained)) for name, option in of_all.items()}
    found["hosts"] = HOSTS.but(parse=as_given, attribute="hosts")
    return {name: option for name, option in found.items() if name not in of_records}


HostsRunOptions.declared = {**HostsRunOptions.declared, **_of_hosts()}
