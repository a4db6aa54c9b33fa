"""One upload, what its client allows, and what a source of uploads knows of a run."""

from collections.abc import Collection, Mapping
from fractions import Fraction
from pathlib import Path

from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import Ring
from harness.inputs.shares.client import Client
from harness.inputs.shares.file_format import ClientPolicy
from harness.pipeline.party_inputs import Uncovered
from harness.pipeline.sources import RunContext
from harness.request.base import Request
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.spec import InputForm


def share(
    records: ClientRecords,
    form: InputForm,
    ring: Ring,
    parties: int,
    out: Path,
    policy: ClientPolicy | None = None,
) -> str:
    """Write the files of one upload to `out/party-<i>/`; return its identity."""
    (batch,) = Client(form, ring, parties, policy).share(records, out)
    return batch


def allowing(
    tasks: tuple[str, ...], epsilon: str, delta: str, unit: PrivacyUnit = PrivacyUnit.RECORD
) -> ClientPolicy:
    """Return a client's policy. Args: epsilon, delta: as a header has them."""
    return ClientPolicy(tasks, Guarantee(Fraction(epsilon), Fraction(delta)), unit)


def all_covered(_domain: RecordDomain, _policies: Mapping[str, ClientPolicy]) -> Collection[str]:
    """Leave no upload out of a run."""
    return ()


def context(release: Request, scratch: Path, uncovered: Uncovered = all_covered) -> RunContext:
    """Return what a source knows of a run that shows no progress."""
    return RunContext(release, scratch, lambda step: None, 600.0, uncovered)
