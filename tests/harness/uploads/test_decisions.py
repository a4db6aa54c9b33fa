"""What is refused of a client's or a party's wish, in whole sentences, before anything is read or sent."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.errors import OptionError, ShareError
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.pipeline.tasks import SaidOfRuns, allowed_on_upload, allowed_runs
from fairshares.harness.uploads.client import count_earlier
from fairshares.harness.uploads.counting import opener_of
from fairshares.harness.uploads.files import place_of_party
from fairshares.harness.uploads.keys import party_with_keys
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.sending import TO_TASK, addresses_for, check_stored
from fairshares.harness.uploads.task import CERTIFICATE, URLS, Task
from fairshares.harness.uploads.upload_servers import Outcome, SendingEnd
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from tests.support.envelopes import made_task

pytestmark = pytest.mark.usefixtures("in_shell")

PLACES = "https://a.invalid/ https://b.invalid/ https://c.invalid/"
NOTHING = SaidOfRuns(most_epsilon=None, most_delta=None, releases=None, unit=None)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return made_task(tmp_path)


def test_addresses_are_the_tasks_or_those_that_are_named(task: Task) -> None:
    assert addresses_for(task, TO_TASK, None) == ["", "", ""]  # as its parties have none
    assert addresses_for(task, PLACES, None) == PLACES.split()


@pytest.mark.parametrize(
    ("admission", "to", "sentence"),
    [
        ("anyone", "https://a.invalid/", "The task has 3 parties; --to names 1."),
        (
            CERTIFICATE,
            PLACES,
            "The task's servers want a certificate of each client; show yours by --certificate.",
        ),
        (URLS, PLACES, "The task has a URL of its own for each upload; name those of yours by --to."),
    ],
)
def test_addresses_that_do_not_fit_the_task(task: Task, admission: str, to: str, sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        addresses_for(replace(task, admission=admission), to, None)
    assert str(refused.value) == sentence


def test_one_upload_whose_end_is_unknown_is_an_error() -> None:
    is_stored = SendingEnd(Outcome.STORED, "HTTP 201")
    stored = Counter({is_stored: 2})
    unknown = Counter({is_stored: 1, SendingEnd(Outcome.UNKNOWN, "stored (HTTP 201)"): 1})
    check_stored([stored, stored], Path("shares"))
    with pytest.raises(ShareError) as refused:
        check_stored([stored, unknown], Path("shares"))
    assert str(refused.value) == (
        "Not every upload is known to be stored; shares keeps them. Send the rest by this command without "
        "--records; sharing again would count the records twice."
    )


def test_a_party_counts_for_runs_that_the_task_allows(task: Task, tmp_path: Path) -> None:
    allowed = task.allowed
    assert opener_of(task, 0, tmp_path / "keys-0", None).policy == allowed
    more = Guarantee(allowed.total.epsilon + Fraction(1, 10**9), allowed.total.delta)
    with pytest.raises(OptionError) as refused:
        opener_of(task, 0, tmp_path / "keys-0", replace(allowed, total=more))
    assert str(refused.value) == (
        f"The task does not allow runs of {allowed.tasks[0]} that spend that much; ask for less."
    )
    with pytest.raises(OptionError) as refused:
        opener_of(task, 3, tmp_path / "keys-0", None)
    assert str(refused.value) == "The task has 3 parties; name one of them by --party."


def test_who_says_nothing_of_runs_leaves_them_to_the_task(task: Task) -> None:
    assert allowed_on_upload(NOTHING, task) is None
    half = replace(NOTHING, most_epsilon=Fraction(1, 2))
    expected = Guarantee(Fraction(1, 2), Fraction(1, 2**30))
    assert allowed_on_upload(half, task) == ClientPolicy(task.allowed.tasks, expected, PrivacyUnit.RECORD)


def test_limits_of_runs_need_an_epsilon() -> None:
    with pytest.raises(OptionError) as refused:
        allowed_runs(replace(NOTHING, releases=["weights"]), RecordKind.NONE)
    assert str(refused.value) == (
        "--for-tasks goes with --epsilon, the most ε that runs on the upload may spend."
    )


def test_a_directory_without_keys_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    with pytest.raises(OptionError) as refused:
        party_with_keys(place, name="party", address="", until=None, hybrid=True)
    assert str(refused.value) == (
        f"{place} holds no keys; make one with --until, the day on which it expires."
    )
    assert not place.exists()


def test_a_partys_own_directory_is_taken_from_all_parties(tmp_path: Path) -> None:
    (tmp_path / "party-1").mkdir()
    assert place_of_party(tmp_path, 1) == tmp_path / "party-1"
    assert place_of_party(tmp_path, 0) == tmp_path
    assert place_of_party("s3://bucket/uploads", 1) == "s3://bucket/uploads"


def test_earlier_uploads_are_those_beside_the_new(tmp_path: Path) -> None:
    (tmp_path / "party-0").mkdir()
    for name in ("old.share", "new.share", "sent.sent"):
        (tmp_path / "party-0" / name).touch()
    assert count_earlier(tmp_path, ["new"]) == 1
