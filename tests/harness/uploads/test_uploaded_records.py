"""Records that a client uploads: whatever its values are, it uploads, and nobody sees what was left out."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import RecordsError
from fairshares.harness.inputs.encoding import as_upload, columns_of
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.protocols.spec import KEYS, PRODUCT, SLOTS, SPLIT, InputForm

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), max_count=3)
VALUES = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0, 1, 10))


def upload(path: Path, text: str, domain: RecordDomain = DOMAIN) -> tuple[ClientRecords, list[str]]:
    """Return what is uploaded of a file, and what its owner is told."""
    path.write_text(text)
    said: list[str] = []
    return read_records(path, domain, kind=domain.kind, say=said.append), said


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("k,c,0", "FILE, row 3: group 'c' is not declared (declared: a, b); left out."),
        ("k,a,2", "FILE, row 3: label '2' is not declared (declared: 0, 1); left out."),
        ("k,,0", "FILE, row 3: column group is empty or NaN; left out."),
        (",a,0", "FILE, row 3: column client_id is empty or NaN; left out."),
        ("k,a", "FILE, row 3 has 2 values where the header has 3; left out."),
        ("k,a,0,1", "FILE, row 3 has 4 values where the header has 3; left out."),
    ],
)
def test_what_is_outside_the_domain_counts_for_nothing(row: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    records, said = upload(path, f"client_id,group,label\nk,a,1\n{row}\nk,b,0\n")
    assert (records.group.tolist(), records.label.tolist(), records.client_ids.tolist()) == (
        [0, 1],
        [1, 0],
        ["k"],
    )
    assert said == [told.replace("FILE", str(path))]
    with pytest.raises(RecordsError):
        read_records(path, DOMAIN)


def test_an_upload_says_whose_it_is(tmp_path: Path) -> None:
    """Where a release on records takes each for a client, an upload is one client's, or one per client."""
    with pytest.raises(RecordsError, match="has no column client_id; it needs client_id, group, label"):
        upload(tmp_path / "mine.csv", "group,label\na,1\nb,0\n")
    assert read_records(tmp_path / "mine.csv", DOMAIN).client_ids.tolist() == ["0", "1"]


def test_a_client_of_whose_records_none_counts_is_there(tmp_path: Path) -> None:
    records, said = upload(tmp_path / "mine.csv", "client_id,group,label\nk,c,1\nl,a,0\nk,c,1\n")
    assert records.client_ids.tolist() == ["k", "l"] and records.client.tolist() == [1]
    assert said[0].endswith("left out, with 1 more.")
    nobody, _ = upload(tmp_path / "mine.csv", "client_id,group,label\n,a,1\n")
    assert nobody.clients == 1 and not len(nobody.client)


def test_of_too_many_records_as_many_as_may_be_are_drawn(tmp_path: Path) -> None:
    """Each of 8 records of k is one of 3 as often as any other; l's one stays."""
    rows = "".join(f"k,a,{i % 2}\n" for i in range(8))
    seen: Counter[int] = Counter()
    for _ in range(200):
        records, said = upload(tmp_path / "mine.csv", f"client_id,group,label\n{rows}l,b,1\n")
        assert records.sizes.tolist() == [3, 1]
        seen.update(records.singly.label[records.singly.client == 0].tolist())
    assert "more records than the maximum of 3, of which as many are drawn at random" in said[0]
    assert min(seen.values()) > 200  # of 600; less by chance with a probability below 1e-15


def test_a_value_outside_its_range_counts_for_nothing(tmp_path: Path) -> None:
    text = "client_id,group,value\nk,a,0.5\nl,a,7\nm,b,17/20\nn,b,x\no,b,1/0\n"
    records, said = upload(tmp_path / "v.csv", text, VALUES)
    assert records.client_ids.tolist() == list("klmno") and records.client.tolist() == [0, 2]
    assert records.detail is not None and records.detail.tolist() == [0, 7]
    assert said[0].endswith("the declared range; left out, with 2 more.")


CELLS = st.sampled_from(["k", "a", "b", "c", "0", "1", "2", "", "nan", "é", "1.0", " "])


@pytest.mark.parametrize("form", [SPLIT, PRODUCT, SLOTS, KEYS], ids=lambda form: form.name)
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=8))
def test_whatever_a_client_has_its_upload_looks_alike(
    form: InputForm, rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Same length, whatever its rows are; all that a party sees but for the sharing."""
    path = tmp_path_factory.getbasetemp() / f"{form.name}.csv"
    capped = RecordDomain(("a", "b"), ("0", "1"), 3, cap=None if form in (SPLIT, PRODUCT) else Cap(2))
    mine = [["k", *row[1:]] for row in rows]
    records, _ = upload(
        path, "client_id,group,label\n" + "".join(",".join(row) + "\n" for row in mine), capped
    )
    shared = columns_of(as_upload(records, form, lambda _: None), form)
    assert shared.shape == columns_of(upload(path, "client_id,group,label\nk,a,0\n", capped)[0], form).shape
