"""Clients' records in one place: their shares are as fresh as those that clients make themselves."""

import itertools
from pathlib import Path

from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.pipeline.sources import share_and_add_up
from fairshares.harness.releases.thresholds.spec import PI_ROC
from fairshares.harness.security_models import MODELS
from tests.support.rings import total_of

OF_SCORES = FederationSize(7, 23, 2, 2, RecordKind.SCORE, thresholds=5)


def test_shares_in_memory_are_drawn_anew_by_each_run(tmp_path: Path) -> None:
    form, chosen = PI_ROC.input_forms["split"], MODELS["ring"]
    runs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        files, _ = share_and_add_up(OF_SCORES.even_records(), form, chosen, tmp_path / name, lambda _: None)
        runs.append([path.read_bytes() for path in files])
    assert total_of(runs[0], chosen.ring) == total_of(runs[1], chosen.ring)
    values = [chosen.ring.from_bytes(share)[:, 0] for run in runs for share in run]
    assert min(int(share.max()) for share in values) > 2**56  # 20 uniform words are all below with 2^-160
    assert all((one != other).all() for one, other in itertools.combinations(values, 2))
