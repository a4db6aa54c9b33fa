"""Replicated shares: who holds which, and that a report that differs anywhere is dropped by all alike."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RING
from harness.inputs.shares.file_format import SALT_BYTES, commitment, extract_values, held_by, read_header
from harness.inputs.shares.party import ANY, CHANGED, NOT_THE_SAME, SAYS, aggregate
from harness.pipeline.party_inputs import feed_heads, sound_uploads
from harness.pipeline.sources import SharesSource
from harness.security_models import MODELS, SecurityModel
from protocols.noise.added import NoiseDistribution
from protocols.spec import PI_GAP_SLOTS, PI_RW, REPLICATED, SLOTS, SPLIT, InputForm
from tests.support.requests import request_of
from tests.support.rings import to_integers
from tests.support.sharing import all_covered, context, share

DOMAIN = RecordDomain(("a", "b"), ("0", "1"))
ABLE = [model for model in MODELS.values() if model.replicated]
models = pytest.mark.parametrize("model", ABLE, ids=lambda model: model.name)
SUMS = SPLIT.by(REPLICATED)


def client(cell: int) -> ClientRecords:
    """Return the record of a client that has one, in this cell."""
    one = np.zeros(1, dtype=np.int64)
    return ClientRecords(DOMAIN, np.array(["c"], dtype=object), one, one + cell // 2, one + cell % 2)


def shared(model: SecurityModel, out: Path, form: InputForm = SUMS) -> list[str]:
    """Have a client in each cell share; return the uploads' identities."""
    return [share(client(cell), form, RING, model.parties, out) for cell in range(4)]


def file_of(shares: Path, party: int, batch: str) -> Path:
    return shares / f"party-{party}" / f"{batch}.share"


def totals(
    model: SecurityModel, shares: Path, work: Path, form: InputForm = SUMS
) -> tuple[list[int], dict[str, int]]:
    """Take the parties' steps; return the counts that all hold shares of, and what is left out, by why."""
    paths, left_out, _ = sound_uploads(shares, form, model, ANY, all_covered)
    work.mkdir()
    written = [work / f"{i}.aggregate" for i in range(model.parties)]
    for i, path in enumerate(written):
        aggregate(i, shares / f"party-{i}", path, paths[i])
    feed_heads(written, form, model)
    share_of: dict[int, bytes] = {}
    for party, path in enumerate(written):
        numbers = held_by(party, model.parties, model.parties - 1)
        values = extract_values(path, work / f"{party}.values").read_bytes()
        size = len(values) // len(numbers)
        for at, number in enumerate(numbers):
            assert (
                share_of.setdefault(number, values[at * size : (at + 1) * size]) == values[at * size :][:size]
            )
    everything = np.stack([RING.from_bytes(share_of[number]) for number in range(model.parties)], axis=-2)
    return to_integers(RING, RING.total(everything)), dict(left_out)


@models
def test_all_but_one_party_hold_each_share_and_all_add_up(model: SecurityModel, tmp_path: Path) -> None:
    r = model.parties
    numbers = [held_by(party, r, r - 1) for party in range(r)]
    assert [set(range(r)) - set(held) for held in numbers] == [{party} for party in range(r)]
    shared(model, tmp_path / "shares")
    assert totals(model, tmp_path / "shares", tmp_path / "work") == ([1, 1, 1, 1], {})


@models
def test_a_changed_share_drops_that_report_at_all_parties_alike(model: SecurityModel, tmp_path: Path) -> None:
    """Before the comparison: each party's each share, first in its salt, then in its payload."""
    batch = shared(model, tmp_path / "shares")[2]
    for party in range(model.parties):
        file = file_of(tmp_path / "shares", party, batch)
        whole = file.read_bytes()
        header = read_header(file)
        start = whole.index(b"\n") + 1
        places = [start]
        for _, piece in header.pieces(whole[start:]):
            places.append(places[-1] + len(piece))
        assert places[-1] == len(whole) and len(places) == model.parties
        for number, place in enumerate(places[:-1]):
            for offset in (0, SALT_BYTES):
                changed = bytearray(whole)
                changed[place + offset] ^= 1
                file.write_bytes(changed)
                work = tmp_path / f"{party}-{number}-{offset}"
                said = {CHANGED + SAYS.format(party=party): 1}
                assert totals(model, tmp_path / "shares", work) == ([1, 1, 0, 1], said)
        file.write_bytes(whole)


def test_a_payload_is_what_its_place_says(tmp_path: Path) -> None:
    """Four counts are as long as a seed: a header that calls them one fits nothing."""
    model = MODELS["ps-rep-ring"]
    batch = shared(model, tmp_path)[0]
    for party in range(model.parties):
        file = file_of(tmp_path, party, batch)
        _, following = file.read_bytes().split(b"\n", 1)
        header = read_header(file)
        assert header.fits(following)
        (other,) = {"seed", "values"} - {header.content}
        assert not replace(header, content=other).fits(following)


@models
def test_an_equivocating_client_is_only_dropped(model: SecurityModel, tmp_path: Path) -> None:
    """One party gets a sound upload of another content: under a name of its own, and under the others'."""
    for renamed in (False, True):
        shares = tmp_path / f"shares-{renamed}"
        batch = shared(model, shares)[1]
        other = share(client(3), SUMS, RING, model.parties, tmp_path / f"other-{renamed}")
        own, foreign = file_of(shares, 1, batch), file_of(tmp_path / f"other-{renamed}", 1, other)
        own.unlink()
        foreign.rename(own if renamed else file_of(shares, 1, other))
        counts, left_out = totals(model, shares, tmp_path / f"work-{renamed}")
        assert counts == [1, 0, 1, 1] and sum(left_out.values()) == (1 if renamed else 2)
        assert renamed or left_out == {NOT_THE_SAME: 2}


@models
def test_a_client_whose_files_have_other_commitments_is_only_dropped(
    model: SecurityModel, tmp_path: Path
) -> None:
    """One party's file is sound by itself: another salt and the commitment to it, in another identity."""
    batch = shared(model, tmp_path / "shares")[0]
    file = file_of(tmp_path / "shares", 0, batch)
    header, following = read_header(file), file.read_bytes().partition(b"\n")[2]
    changed = bytes([following[0] ^ 1]) + following[1:]
    number, salted = next(header.pieces(changed))
    commitments = [*header.commitments]
    commitments[number] = commitment(salted)
    other = replace(header, commitments=tuple(commitments))
    for batch_named, why in ((other.bound, {NOT_THE_SAME: 2}), (batch, {CHANGED + SAYS.format(party=0): 1})):
        file.unlink(missing_ok=True)
        file = file_of(tmp_path / "shares", 0, batch_named)
        file.write_bytes(replace(other, batch=batch_named).line() + changed)
        assert totals(model, tmp_path / "shares", tmp_path / batch_named) == ([0, 1, 1, 1], why)


@models
def test_additive_and_replicated_shares_are_told_apart(model: SecurityModel, tmp_path: Path) -> None:
    shared(model, tmp_path / "additive", SPLIT)
    shared(model, tmp_path / "replicated")
    for form, directory, said in (
        (SUMS, "additive", "are additive"),
        (SPLIT, "replicated", "are replicated"),
    ):
        release = request_of(model, form, Fraction(1), Fraction(1, 2**40))
        (tmp_path / f"scratch-{directory}").mkdir()
        with pytest.raises(ShareError, match=said):
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
