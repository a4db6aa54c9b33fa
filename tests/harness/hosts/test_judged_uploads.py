"""Which uploads a host takes into a run: by its own files, and by their clients' policies."""

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import (
    BudgetError,
    HostUnfitError,
    ShareError,
)
from harness.inputs.encoding import shared_over
from harness.inputs.shares.file_format import ClientPolicy
from harness.inputs.shares.party import ANY, UNCOVERED
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PI_RW
from tests.support.coordinators import (
    MODEL,
    Coordinator,
    asked,
    let_go,
    listed,
    ran,
    records,
)
from tests.support.sharing import allowing, share

ALLOWED = allowing(("weights",), "1", "1/1024", PrivacyUnit.RECORD)


def test_a_starter_needs_inputs_of_the_hosts_own(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    with pytest.raises(HostUnfitError, match="before it had any inputs"):
        work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
    shutil.rmtree(hosts[0] / "shares")
    shutil.move(hosts[1] / "shares", hosts[0] / "shares")
    with pytest.raises(ShareError):
        work.release.uploads.aggregate(0)


def test_clients_that_do_not_allow_a_run_are_left_out(hosts: list[Path], tmp_path: Path) -> None:
    """What an upload has spent is added up by each host; a coordinator that leaves nobody out is refused."""
    one = share_more(hosts, tmp_path, ALLOWED)

    def run(**changes: Any) -> tuple[str, ...]:
        with ExitStack() as stack:
            coordinator = Coordinator(hosts[0], stack)
            work = coordinator.work
            work.propose(asked(**changes))
            coordinator.tell(hosts, asked(**changes))
            work.release.uploads.aggregate(0)
            work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
            assert work.release.uploads.inputs is not None
            let_go(coordinator, work, hosts)
            return work.release.uploads.inputs.batches

    assert one in run(epsilon="1/2") and one in run(epsilon="1/2")
    assert one not in run(epsilon="1/2")
    with pytest.raises(BudgetError, match="The policies of clients do not cover this run, in 1 of its 2"):
        ran(hosts, epsilon="1/2")


@pytest.mark.parametrize(
    ("allowed", "covered"),
    [
        (ALLOWED, True),
        (replace(ALLOWED, tasks=("gap",)), False),
        (replace(ALLOWED, unit=PrivacyUnit.CLIENT), False),
        (allowing(("weights",), "9/10", "1/1024"), False),
        (allowing(("weights",), "1", "1/1000000000000000"), False),
    ],
)
def test_a_client_says_for_what_its_upload_may_be_used(
    allowed: ClientPolicy, covered: bool, hosts: list[Path], tmp_path: Path, stack: ExitStack
) -> None:
    one = share_more(hosts, tmp_path, allowed)
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    report = listed(work)
    assert (one in report.sound_batches, report.unsound.get(one) == UNCOVERED) == (covered, not covered)


def share_more(hosts: list[Path], tmp_path: Path, allowed: ClientPolicy) -> str:
    """Give each host its share of one more upload, with its client's policy; return its identity."""
    form = PI_RW.input_forms["split"]
    batch = share(records(), form, shared_over(form, MODEL.domain), MODEL.parties, tmp_path / "more", allowed)
    for i, host in enumerate(hosts):
        for path in (tmp_path / "more" / f"party-{i}").iterdir():
            path.rename(host / "shares" / path.name)
    return batch


def test_another_files_header_changes_no_clients_policy(
    hosts: list[Path], tmp_path: Path, stack: ExitStack
) -> None:
    """A file that is not what its name says has no say, in whatever order a directory lists them."""
    one = share_more(hosts, tmp_path, replace(ALLOWED, tasks=("gap",)))
    line, _, rest = (hosts[0] / "shares" / f"{one}.share").read_bytes().partition(b"\n")
    lax = {**json.loads(line), "policy": json.loads(line)["policy"] | {"tasks": ["weights"]}}
    for k in range(8):
        (hosts[0] / "shares" / f"{k}.share").write_bytes(json.dumps(lax).encode() + b"\n" + rest)
    work = Coordinator(hosts[0], stack).work
    work.propose(asked())
    assert listed(work).unsound[one] == UNCOVERED


def test_uploads_that_come_after_the_check_are_judged_too(hosts: list[Path], tmp_path: Path) -> None:
    share_more(hosts, tmp_path, ALLOWED)
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack).work
        work.propose(asked())
        work.release.uploads.check_uploads(0, ANY.to_json())
        share_more(hosts, tmp_path / "late", replace(ALLOWED, tasks=("gap",)))
        work.release.uploads.aggregate(0)
        with pytest.raises(BudgetError, match="The policies of clients do not cover this run, in 1 of its 3"):
            work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)


def test_an_upload_of_another_kind_ends_nothing(hosts: list[Path], tmp_path: Path, stack: ExitStack) -> None:
    share_more(hosts, tmp_path, ALLOWED)
    work = Coordinator(hosts[0], stack).work
    work.propose(asked("gap", input_form="split"))
    work.release.uploads.check_uploads(0, ANY.to_json())
    work.release.uploads.aggregate(0)
    with pytest.raises(ShareError, match="gap needs"):
        work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * MODEL.parties)
