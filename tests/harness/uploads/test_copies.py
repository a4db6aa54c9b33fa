"""A run writes the values of its uploads once, and keeps no file of them but what the engine takes."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.engines.execution import ValueFiles
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.pipeline.sources import PartyInputs, SharesSource
from fairshares.harness.security_models import MODELS
from fairshares.protocols.spec import SLOTS
from tests.support.envelopes import counts, upload
from tests.support.requests import request_of
from tests.support.sharing import context, trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

UPLOADS = 50
COLUMNS = 1000  # so many that all else which is written is short beside the values
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), COLUMNS, cap=Cap(COLUMNS))
MODEL = MODELS["ring"]
VALUES = MODEL.parties * UPLOADS * COLUMNS * 8  # bytes, of all parties


def bytes_written() -> int:
    """Return how many bytes this process has written so far, by whatever calls of the kernel."""
    lines = Path("/proc/self/io").read_text().splitlines()
    fields = dict(line.split(": ") for line in lines)
    return int(fields["wchar"])


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """Return a directory with uploads, and with the task and keys of all parties."""
    task = trial(DOMAIN, SLOTS, MODEL, tmp_path)
    for number in range(UPLOADS):
        upload(task, np.full(COLUMNS, number), tmp_path)
    return tmp_path


def fed(directory: Path) -> tuple[PartyInputs, int]:
    """Return the inputs of a run, and how many bytes it wrote to have them."""
    scratch = directory / "scratch"
    scratch.mkdir()
    run = context(request_of(MODEL, SLOTS, Fraction(1), Fraction(1, 2**40)), scratch)
    source = SharesSource(directory)
    before = bytes_written()
    inputs = source.deliver(run, source.describe(run), None)
    return inputs, bytes_written() - before


def test_a_run_on_uploads_writes_their_values_once(uploaded: Path) -> None:
    inputs, written = fed(uploaded)
    assert VALUES <= written < 1.5 * VALUES, "a copy would be as many bytes again"
    assert isinstance(inputs.values, ValueFiles)
    sizes = [file.stat().st_size for file in inputs.values.files]
    assert sizes == [VALUES // MODEL.parties] * MODEL.parties


def test_a_run_on_aggregates_writes_their_values_once_and_leaves_them(uploaded: Path) -> None:
    """The aggregates stay their owner's, and the engine's program gets files of its own."""
    task = trial(DOMAIN, SLOTS, MODEL, uploaded)
    given = uploaded / "given"
    given.mkdir()
    for party, count in enumerate(counts(task, uploaded, shares=uploaded)):
        count.write(given / f"party-{party}.aggregate", {})
    whole = {file.name: file.read_bytes() for file in given.iterdir()}
    inputs, written = fed(given)
    assert VALUES <= written < 1.5 * VALUES
    assert {file.name: file.read_bytes() for file in given.glob("*.aggregate")} == whole
    assert isinstance(inputs.values, ValueFiles)
    for file, aggregate in zip(inputs.values.files, sorted(whole), strict=True):
        assert whole[aggregate].endswith(file.read_bytes())
