"""A release's call says which domain it declares, by the kind of its records."""

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, Rounding, ValueGrid
from fairshares.harness.releases.gap.request import DeclaredValues
from fairshares.harness.releases.registry import CALLS, RELEASES

pytestmark = pytest.mark.usefixtures("in_shell")

LABELED = [kind for kind in RecordKind if kind is not RecordKind.VALUE]


@pytest.mark.parametrize("kind", LABELED)
def test_groups_and_labels_are_a_domain_of_other_kinds(kind: RecordKind) -> None:
    declares = CALLS["weights"](epsilon=1, groups="b,a", labels="1,0", max_count="3").declares
    assert declares.of_kind(kind) == RecordDomain(("a", "b"), ("0", "1"), 3)
    assert CALLS["weights"](epsilon=1).declares.of_kind(kind) is None


def test_groups_and_a_range_are_a_domain_of_values() -> None:
    declares = CALLS["gap"](epsilon=1, groups="b,a", range="0,2", steps="7").declares
    domain = declares.of_kind(RecordKind.VALUE)
    values = ValueGrid(0.0, 2.0, 7, Rounding.RANDOM)
    assert domain == RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=values)
    with pytest.raises(OptionError, match="Declare performance values by --groups and --range"):
        CALLS["gap"](epsilon=1, groups="b,a").declares.of_kind(RecordKind.VALUE)


@pytest.mark.parametrize("kind", LABELED)
@pytest.mark.parametrize(("name", "text"), [("range", "0,1"), ("steps", "5")])
def test_a_range_is_refused_where_records_have_labels(kind: RecordKind, name: str, text: str) -> None:
    """A task's command takes the domain of any release, so it may be given both."""
    declares = DeclaredValues(groups="a,b", labels="0,1", **{name: text})
    with pytest.raises(OptionError, match=f"--{name} is for performance values"):
        declares.of_kind(kind)


def test_a_call_declares_the_sizes_that_its_plan_takes() -> None:
    weights = {"groups": "a,b", "labels": "0,1", "max_count": "9"}
    assert CALLS["weights"](epsilon=1, **weights).planned_sizes() == weights
    thresholds = CALLS["thresholds"](epsilon=1, thresholds="11", **weights).planned_sizes()
    assert thresholds == {**weights, "thresholds": "11"}
    gap = CALLS["gap"](epsilon=1, groups="a,b", range="0,1", steps="4").planned_sizes()
    assert gap == {"groups": "a,b", "labels": "", "max_count": "", "steps": "4"}


def test_invitations_are_described_whole() -> None:
    given = {"epsilon": "1", "invite": "there", "clients": "3"}
    invited = RELEASES["weights"](**given).invited()
    assert invited is not None and (str(invited.directory), invited.clients) == ("there", 3)
    for left_out in ("invite", "clients"):
        options = RELEASES["weights"](**{**given, left_out: ""})
        with pytest.raises(OptionError, match=r"--invite and --clients .* go together"):
            options.invited()
    others = [options for task, options in RELEASES.items() if task not in ("weights", "cap")]
    assert all(options(epsilon="1").invited() is None for options in others)
