"""Replicated shares: who holds which, and that a report that differs anywhere is dropped by all alike."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.errors import OptionError, ShareError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.shares import held_by
from fairshares.harness.pipeline.sources import SharesSource
from fairshares.harness.releases.gap.spec import PI_GAP_SLOTS
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.envelope import BOUNDS_BYTES, SALT_BYTES
from fairshares.harness.uploads.lists import common_uploads
from fairshares.harness.uploads.reasons import CHANGED, NOT_THE_SAME, SAYS
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import REPLICATED, SLOTS, SPLIT, InputForm
from tests.support.envelopes import counts, resealed, revealed
from tests.support.requests import request_of
from tests.support.sharing import context, share, trial

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10)
ABLE = [model for model in MODELS.values() if model.replicated]
models = pytest.mark.parametrize("model", ABLE, ids=lambda model: model.name)
SUMS = SPLIT.by(REPLICATED)


def client(cell: int) -> ClientRecords:
    """Return the record of a client that has one, in this cell."""
    one = np.zeros(1, dtype=np.int64)
    return ClientRecords(DOMAIN, np.array(["c"], dtype=object), one, one + cell // 2, one + cell % 2)


def shared(model: SecurityModel, out: Path, form: InputForm = SUMS) -> list[str]:
    """Have a client in each cell share; return the uploads' identities."""
    return [share(client(cell), form, model, out) for cell in range(4)]


def file_of(shares: Path, party: int, batch: str) -> Path:
    return shares / f"party-{party}" / f"{batch}.share"


def totals(model: SecurityModel, shares: Path) -> tuple[list[int], dict[str, int]]:
    """Take the parties' steps; return the counts that all hold shares of, and what is left out, by why."""
    task = trial(DOMAIN, SUMS, model, shares)
    agreement = common_uploads([count.report() for count in counts(task, shares, shares=shares)])
    taken = counts(task, shares, agreement.accepted, shares)
    return revealed(task, [count.values for count in taken]), dict(agreement.left_out)


@models
def test_all_but_one_party_hold_each_share_and_all_add_up(model: SecurityModel, tmp_path: Path) -> None:
    r = model.parties
    numbers = [held_by(party, r, r - 1) for party in range(r)]
    assert [set(range(r)) - set(held) for held in numbers] == [{party} for party in range(r)]
    shared(model, tmp_path)
    assert totals(model, tmp_path) == ([1, 1, 1, 1], {})


@models
def test_a_share_that_a_client_seals_otherwise_drops_that_report_at_all_parties_alike(
    model: SecurityModel, tmp_path: Path
) -> None:
    """Each party's each share, first in its salt, then in its payload."""
    batch = shared(model, tmp_path)[2]
    task = trial(DOMAIN, SUMS, model, tmp_path)
    for party in range(model.parties):
        file, at = file_of(tmp_path, party, batch), BOUNDS_BYTES + 32 * model.parties
        whole = file.read_bytes()
        for _, size in task.pieces(party):
            for offset in (0, SALT_BYTES):
                file.write_bytes(resealed(task, party, whole, tmp_path / f"keys-{party}", at + offset))
                assert totals(model, tmp_path) == ([1, 1, 0, 1], {CHANGED + SAYS.format(party=party): 1})
            at += size
        file.write_bytes(whole)


@models
def test_an_equivocating_client_is_only_dropped(model: SecurityModel, tmp_path: Path) -> None:
    """One party gets a sound upload of another content, under whatever name."""
    batch, other = shared(model, tmp_path)[1], share(client(3), SUMS, model, tmp_path)
    for party in range(model.parties):
        if party != 1:
            file_of(tmp_path, party, other).unlink()
    file_of(tmp_path, 1, other).replace(file_of(tmp_path, 1, batch))
    assert totals(model, tmp_path) == ([1, 0, 1, 1], {NOT_THE_SAME: 2})


@models
def test_additive_and_replicated_shares_are_told_apart(model: SecurityModel, tmp_path: Path) -> None:
    shared(model, tmp_path / "additive", SPLIT)
    shared(model, tmp_path / "replicated")
    for form, directory in ((SUMS, "additive"), (SPLIT, "replicated")):
        release = request_of(model, form, Fraction(1), Fraction(1, 2**40))
        (tmp_path / f"scratch-{directory}").mkdir()
        with pytest.raises(ShareError, match=f"Clients shared for .* as split in {directory} shares"):
            SharesSource(tmp_path / directory).describe(context(release, tmp_path / f"scratch-{directory}"))


@models
def test_slots_that_no_party_can_change_take_single_noise(model: SecurityModel) -> None:
    slots = PI_GAP_SLOTS.input_forms[SLOTS.name]
    assert slots.exchangeable and not slots.by(REPLICATED).exchangeable


def test_noise_of_the_parties_own_is_refused() -> None:
    release = request_of(
        ABLE[0], SUMS, Fraction(1), Fraction(1, 2**40), distribution=NoiseDistribution.LAPLACE
    )
    with pytest.raises(OptionError, match="joint noise only"):
        release.program_of(PI_RW)
