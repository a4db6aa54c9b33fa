"""What many uploads would take is what was measured of fewer, by visible arithmetic."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairshares.harness.forecast.upload_costs import costs_of, recorded
from fairshares.harness.inputs.record_schema import RecordDomain
from tests.support.command import succeed
from tests.support.envelopes import made_task

pytestmark = pytest.mark.usefixtures("in_shell")

FEW = {"uploads": 1000, "counts": 4, "seal_s": 3.0, "list_s": 0.1, "add_s": 0.2, "add_mb": 100}
MANY = {"uploads": 100, "counts": 1004, "seal_s": 1.3, "list_s": 0.02, "add_s": 0.12, "add_mb": 110}
MEASURED = [
    {**FEW, "hybrid": 1},
    {**FEW, "hybrid": 0, "seal_s": 2.0, "add_mb": 90},
    {**MANY, "hybrid": 1},
]


def test_costs_follow_the_counts_and_the_kind_of_key(tmp_path: Path) -> None:
    """A count more takes 10 µs to seal and 1 µs to add up, and listing it takes 0.1 µs."""
    for hybrid, seal, memory in ((True, 3e-3, 100e6), (False, 2e-3, 90e6)):
        task = made_task(tmp_path / str(hybrid), hybrid=hybrid)
        few = costs_of(10**6, task, 2, MEASURED)
        wide = RecordDomain(("a", "b"), tuple(map(str, range(52))), 1).to_json()
        more = costs_of(10**6, replace(task, record_domain=wide), 2, MEASURED)
        assert (few.seal_s, few.list_s, few.add_s) == pytest.approx((1e6 * seal, 100, 200))
        assert (more.seal_s, more.list_s, more.add_s) == pytest.approx((1e6 * seal + 1000, 110, 300))
        assert few.disk_bytes == 10**6 * task.envelope_bytes(2) and few.sent_bytes == 65 * 10**6
        assert few.memory_bytes == memory + 32 * 4 * (10**6 - 1000)
        assert costs_of(10, task, 2, MEASURED).memory_bytes == memory


def test_a_task_says_what_uploads_would_take(tmp_path: Path) -> None:
    task = made_task(tmp_path, hybrid=True)
    (tmp_path / "task.json").write_bytes(task.text)
    costs = costs_of(10**8, task, 2, recorded())
    said = succeed("task", "task.json", "--plan", "100000000", cwd=tmp_path)
    assert f"{costs.disk_bytes / 1e9:,.3g} GB" in said and f"{costs.add_s / 3600:,.3g} hours" in said
