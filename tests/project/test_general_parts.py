"""A field of a general part is offered by several releases. A field that one release has is in its folder.

A general part that lists the field of one release has all other releases leave it out, one after the other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from inspect import getmembers_static

import pytest

from fairshares.harness.releases.registry import RELEASES
from fairshares.harness.request.fields import Option, OptionGroup, Options, optional
from fairshares.harness.request.readers import as_given
from fairshares.harness.request.releases import ReleaseCall, SourceOptions

GENERAL = "fairshares.harness.request."  # its modules know no release
LEAST = 2


def parts_of(
    kind: type[Options], offered: Collection[str]
) -> Iterator[tuple[type[Options], Collection[str]]]:
    """Yield a class and its parts, those within parts, too, each with the fields of it that are offered."""
    yield kind, offered
    for _, part in getmembers_static(kind, lambda member: isinstance(member, OptionGroup)):
        yield from parts_of(part.kind, part.options.keys() & offered)


def offering(releases: Mapping[str, type[Options]]) -> dict[tuple[str, str], set[str]]:
    """Return the releases that offer each field of each general class, by the names of both."""
    tasks = defaultdict[tuple[str, str], set[str]](set)
    for task, options in releases.items():
        for kind, offered in parts_of(options, options.declared):
            for general in kind.__mro__:
                if not general.__module__.startswith(GENERAL):
                    continue
                for name, field in vars(general).items():
                    if isinstance(field, Option):
                        tasks[general.__name__, name] |= {task} if name in offered else set()
    return dict(tasks)


def test_each_field_of_a_general_part_is_offered_by_several_releases() -> None:
    offered_by = offering(RELEASES)
    alone = {field: tasks for field, tasks in offered_by.items() if len(tasks) < LEAST}
    assert alone == {}, "A field of one release goes into a class of its own folder."
    assert {("Protect", "cap"), ("Inputs", "input_path"), ("SourceOptions", "records")} <= offered_by.keys()


@pytest.mark.parametrize("others", [{}, {"d", "e"}, {"d"}])
def test_a_field_is_of_those_releases_that_do_not_leave_it_out(
    others: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wide(SourceOptions):
        weather = optional(as_given, "the weather")

    class LeavingItOut(ReleaseCall):
        source = OptionGroup(Wide, without=("weather",))

    class OfferingIt(ReleaseCall):
        source = OptionGroup(Wide)

    monkeypatch.setattr(Wide, "__module__", f"{GENERAL}releases")
    releases: dict[str, type[Options]] = dict.fromkeys("abc", LeavingItOut)
    releases |= dict.fromkeys(others, OfferingIt)
    assert offering(releases)["Wide", "weather"] == set(others)
