"""Aggregates, and the columns that are shared: what adds up, and that no damaged or foreign file is used."""

import json
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.execution import ValueFiles
from fairshares.harness.errors import RecordsError, ShareError
from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.harness.pipeline.sources import SharesSource
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.aggregates import (
    check_aggregates,
    check_own,
    extract_values,
    read_header,
    read_uploads,
)
from fairshares.protocols.spec import PRODUCT, SPLIT, InputForm
from tests.support.envelopes import counts, revealed
from tests.support.requests import request_of
from tests.support.sharing import context, share, trial

pytestmark = pytest.mark.usefixtures("in_shell")

DECLARED = RecordDomain(("a", "b", "c"), ("0", "1"), 90_000)
FORMS = pytest.mark.parametrize("form", [SPLIT, PRODUCT], ids=lambda form: form.name)
# Counts that would be recognized in a message.
CELLS = [[70001, 3], [0, 0], [81234, 5]]


def client(name: str, group: int, counts: list[int], declared: RecordDomain = DECLARED) -> ClientRecords:
    """Make a client's records of one group, so many of each label."""
    label = np.repeat(np.arange(len(counts)), counts)
    return ClientRecords(declared, np.array([name]), 0 * label, 0 * label + group, label)


THREE = [client("k", 0, CELLS[0]), client("l", 2, CELLS[2]), client("m", 1, [2, 4])]


@FORMS
def test_columns_of_each_form(form: InputForm) -> None:
    columns = np.hstack([columns_of(records, form) for records in THREE[:2]])
    if form is SPLIT:
        assert count_columns(DECLARED, "split") == 6
        assert columns.tolist() == [[70001, 0], [3, 0], [0, 0], [0, 0], [0, 81234], [0, 5]]
    else:
        assert count_columns(DECLARED, "product") == 4
        assert columns.tolist() == [[1, 0], [0, 0], [70001, 81234], [3, 5]]


def test_a_client_with_two_groups_needs_the_split_form(tmp_path: Path) -> None:
    mixed = ClientRecords(DECLARED, np.array(["l"]), *np.array([[0, 0], [1, 2], [1, 1]]))
    with pytest.raises(
        RecordsError, match=r"^Client 'l' has records of two groups, .*; use --input-form split\.$"
    ):
        share(mixed, PRODUCT, MODELS["semi2k"], tmp_path / "product")
    assert not [*tmp_path.rglob("*.share")]
    share(mixed, SPLIT, MODELS["semi2k"], tmp_path / "split")


def test_a_client_without_records_shares_zeros(tmp_path: Path) -> None:
    """Else leaving the client out would tell that it has none."""
    path = tmp_path / "nobody.csv"
    path.write_text("client_id,group,label\n")
    nobody = read_records(path, RecordDomain(("a", "b"), ("0", "1")), say=lambda _: None)
    assert nobody.clients == 1
    for form, columns in ((SPLIT, [0, 0, 0, 0]), (PRODUCT, [1, 0, 0])):
        assert columns_of(nobody, form)[:, 0].tolist() == columns


@FORMS
@pytest.mark.parametrize("model", [MODELS["ring"], MODELS["mpyc"]], ids=lambda model: model.name)
def test_a_run_takes_all_uploads_in_the_order_of_their_identities(
    form: InputForm, model: SecurityModel, tmp_path: Path
) -> None:
    """Whatever their files are called at a party."""
    names = {share(records, form, model, tmp_path): columns_of(records, form) for records in THREE}
    for at, path in enumerate(sorted((tmp_path / "party-1").iterdir(), reverse=True)):
        path.rename(path.with_name(f"{at}.share"))
    release = request_of(model, form, Fraction(1), Fraction(1, 2**40))
    (tmp_path / "scratch").mkdir()
    run = context(release, tmp_path / "scratch")
    inputs = SharesSource(tmp_path).describe(run)
    assert (inputs.clients, inputs.uploads, inputs.excluded) == (3, 3, {})
    assert tuple(inputs.batches) == tuple(sorted(names))
    delivered = SharesSource(tmp_path).deliver(run, inputs, None).values
    assert isinstance(delivered, ValueFiles)
    parts = [model.ring.from_bytes(path.read_bytes()) for path in delivered.files]
    blocks = [names[name] for name in sorted(names)]
    expected = sum(blocks) if form is SPLIT else np.hstack(blocks)
    total = parts[0]
    for part in parts[1:]:
        total = model.ring.add(total, part)
    assert np.array_equal(total, model.ring.encode(np.ravel(expected)))


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    (tmp_path / "shares").mkdir(mode=0o700)
    before = os.umask(0)
    try:
        name = share(THREE[0], SPLIT, MODELS["semi2k"], tmp_path / "shares")
        task = trial(DECLARED, SPLIT, MODELS["semi2k"], tmp_path / "shares")
        made = counts(task, tmp_path / "shares", shares=tmp_path / "shares")[0]
        made.write(tmp_path / "aggregate", {})
        extract_values(tmp_path / "aggregate", tmp_path / "values")
    finally:
        os.umask(before)
    share_file = tmp_path / "shares" / "party-0" / f"{name}.share"
    assert share_file.parent.stat().st_mode & 0o777 == 0o700
    for path in (share_file, tmp_path / "aggregate", tmp_path / "values"):
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def aggregates(tmp_path: Path) -> list[Path]:
    """Three uploads, aggregated by three parties."""
    for records in THREE:
        share(records, SPLIT, MODELS["ring"], tmp_path)
    paths = [tmp_path / f"party-{i}.aggregate" for i in range(3)]
    made = counts(trial(DECLARED, SPLIT, MODELS["ring"], tmp_path), tmp_path, shares=tmp_path)
    assert revealed(trial(DECLARED, SPLIT, MODELS["ring"], tmp_path), [count.values for count in made]) == [
        70001, 3, 2, 4, 81234, 5,
    ]  # fmt: skip
    headers = [count.write(path, {}) for count, path in zip(made, paths, strict=True)]
    assert check_aggregates(paths) == headers[0] and headers[0].uploads == 3
    return paths


def edit(path: Path, **changes: Any) -> None:
    """Change an aggregate's header; a change to None takes the key away."""
    header, _, rest = path.read_bytes().partition(b"\n")
    fields = {**json.loads(header), **changes}
    kept = {key: value for key, value in fields.items() if value is not None}
    path.write_bytes(json.dumps(kept).encode() + b"\n" + rest)


def task_of(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(path.read_bytes().partition(b"\n")[0])["task"]
    return fields


def assert_silent(error: ShareError, directory: Path) -> None:
    """Assert that a message is short and holds no count, no seed and no share."""
    text = str(error).replace(str(directory), "")
    assert not re.search(r"7000\d|8123\d|\d{17}|[0-9a-f]{33}", text)
    assert not re.search(r"Error|Traceback|Header\(", text)
    assert len(re.findall(r"\.(?: |$)", text)) in (1, 2)


NO_AGGREGATE = (
    "not an aggregate of this version: .*; run `aggregate` again|no aggregate that this version knows"
)
DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda p: p.write_bytes(b""),
    "text": lambda p: p.write_text("client_id,group,label\n"),
    "a list": lambda p: p.write_text("[1, 2]\n"),
    "deep": lambda p: p.write_text("[" * 500_000),
    "not UTF-8": lambda p: p.write_bytes(b"\xff" + p.read_bytes()),
    "other version": lambda p: edit(p, schema=2),
    "unknown key": lambda p: edit(p, more=1),
    "key missing": lambda p: edit(p, uploads=None),
    "no uploads": lambda p: edit(p, uploads=0),
    "half an upload": lambda p: edit(p, uploads=1.5),
    "party in words": lambda p: edit(p, party="0"),
    "no such party": lambda p: edit(p, party=3),
    "no policy": lambda p: edit(p, policy={}),
    "a key of the task missing": lambda p: edit(p, task={"form": "split"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_no_aggregate_is_refused(aggregates: list[Path], damage: str) -> None:
    DAMAGES[damage](aggregates[0])
    with pytest.raises(ShareError) as error:
        read_header(aggregates[0])
    assert re.search(f"{NO_AGGREGATE}|client's policy", str(error.value))
    assert_silent(error.value, aggregates[0].parent)


MISMATCHES: dict[str, tuple[Callable[[list[Path]], object], str]] = {
    "swapped": (lambda p: p.reverse(), "is not the aggregate of party 0"),
    "one missing": (lambda p: p.pop(), "are the aggregates of 2 parties, of a task for 3"),
    "other party": (lambda p: edit(p[2], party=1), "is not the aggregate of party 2"),
    "fewer uploads": (
        lambda p: edit(p[2], uploads=2, fingerprint="0" * 64),
        "Party 2 has 2 uploads, party 0 has 3",
    ),
    "other uploads": (lambda p: edit(p[2], fingerprint="0" * 64), "Party 2 has 3 uploads, party 0 has 3"),
    "other policy": (
        lambda p: edit(p[1], policy={"tasks": ["gap"], "epsilon": "1", "delta": "0", "unit": "record"}),
        "Party 1 has 3",
    ),
    "other task": (
        lambda p: edit(p[1], task={**task_of(p[1]), "least_uploads": 2}),
        "uploads of another task",
    ),
}


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_aggregates_that_do_not_match_name_the_party(aggregates: list[Path], mismatch: str) -> None:
    change, message = MISMATCHES[mismatch]
    change(aggregates)
    with pytest.raises(ShareError, match=message) as error:
        check_aggregates(aggregates)
    assert_silent(error.value, aggregates[0].parent)


def test_a_damaged_aggregate_is_not_fed_into_a_run(aggregates: list[Path]) -> None:
    aggregates[0].write_bytes(aggregates[0].read_bytes()[:-8])
    with pytest.raises(ShareError, match="is damaged: it does not have 48 bytes of values"):
        extract_values(aggregates[0], aggregates[0].with_suffix(".values"))
    assert not aggregates[0].with_suffix(".values").exists()
    with pytest.raises(ShareError, match="is not the aggregate of party 1"):
        check_own(aggregates[0], 1)


LISTS: dict[str, Callable[[list[bytes]], bytes]] = {
    "one missing": lambda names: b" ".join(names[:-1]),
    "one twice": lambda names: b" ".join([*names[:-1], names[0]]),
    "one more": lambda names: b" ".join([*names, names[0]]),
    "another order": lambda names: b" ".join(names[::-1]),
    "none": lambda names: b"",
    "no text": lambda names: bytes(range(128, 256)),
}


@pytest.mark.parametrize("damage", LISTS)
def test_a_list_that_is_not_whole_is_refused(damage: str, aggregates: list[Path]) -> None:
    path = aggregates[0]
    header, uploads, values = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join([header, LISTS[damage](uploads.split()), values]))
    with pytest.raises(ShareError, match=re.escape(f"{path} is damaged: its list of uploads is not whole")):
        read_uploads(path)


def test_a_run_has_as_many_uploads_as_the_task_says(aggregates: list[Path]) -> None:
    """Also where a party wrote fewer: all others have to have the same."""
    directory = aggregates[0].parent
    for path in aggregates:
        edit(path, task={**task_of(path), "least_uploads": 4})
    release = request_of(MODELS["ring"], SPLIT, Fraction(1), Fraction(1, 2**40))
    with pytest.raises(ShareError, match="3 uploads can be counted, and a run of this task has 4 at least"):
        SharesSource(directory).describe(context(release, directory))
