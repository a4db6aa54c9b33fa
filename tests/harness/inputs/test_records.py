"""Records: every file that cannot be used ends in one or two sentences, with the row where there is one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from fairshares.harness.errors import FairSharesError, RecordDomainError, RecordsError
from fairshares.harness.inputs import tables as tables_of_records
from fairshares.harness.inputs.columns import refuse_variants
from fairshares.harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    MAX_TOTAL,
    RecordDomain,
    domain_from_json,
    read_domain,
)
from fairshares.harness.inputs.records import MOST_INFERRED, ClientRecords, read_records
from fairshares.protocols.json_values import JsonValue
from tests.conftest import PROJECT

pytestmark = pytest.mark.usefixtures("in_shell")

DECLARED = RecordDomain(("a", "b"), ("0", "1"), 3)
HEADER = "client_id,group,label\n"


def assert_readable(error: FairSharesError) -> None:
    """Assert that a message is one or two sentences of words."""
    text = re.sub(r"'[^']*'|\S*/\S*", "", str(error))
    assert len(re.findall(r"\.(?: |$)", text)) in (1, 2)
    assert text.endswith(".")
    assert not re.search(r"Error|Exception|Traceback|errno|0x|\bNone\b", text)


def read(path: Path, content: str | bytes, domain: RecordDomain | None = DECLARED) -> ClientRecords:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_records(path, domain)


def refused(path: Path, content: str | bytes, domain: RecordDomain | None = DECLARED) -> str:
    """Return the message, without the file's name, with which a file is refused."""
    with pytest.raises((RecordsError, RecordDomainError)) as error:
        read(path, content, domain)
    assert_readable(error.value)
    return str(error.value).replace(str(path), "FILE")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "records.csv"


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    return tmp_path / "records.parquet"


def tables(records: ClientRecords) -> dict[str, list[int]]:
    """Return each client's counts per cell, by its name."""
    counts = records.counts_per_client().T.tolist()
    return dict(zip(map(str, records.client_ids), counts, strict=True))


def test_counts_per_client(csv: Path) -> None:
    records = read(csv, HEADER + "k,a,0\nl,b,1\nk,a,1\nk,a,0\nl,a,1\n")
    assert tables(records) == {"k": [2, 1, 0, 0], "l": [0, 1, 0, 1]}
    assert (records.clients, records.domain) == (2, DECLARED)


SAME = {"k": [1, 0, 0, 0], "l": [0, 0, 0, 1]}
GOOD: dict[str, str | bytes] = {
    "plain": HEADER + "k,a,0\nl,b,1\n",
    "no newline at the end": HEADER + "k,a,0\nl,b,1",
    "CRLF": HEADER.replace("\n", "\r\n") + "k,a,0\r\nl,b,1\r\n",
    "CR": HEADER.replace("\n", "\r") + "k,a,0\rl,b,1\r",
    "CRLF in the header alone": HEADER.replace("\n", "\r\n") + "k,a,0\nl,b,1\n",
    "CRLF in one row": HEADER + "k,a,0\r\nl,b,1\n",
    "CRLF at the end alone": HEADER + "k,a,0\nl,b,1\r\n",
    "CR after the header alone": HEADER.replace("\n", "\r") + "k,a,0\nl,b,1\n",
    "CR CR LF": HEADER.replace("\n", "\r\r\n") + "k,a,0\r\r\nl,b,1\r\r\n",
    "byte order mark": b"\xef\xbb\xbf" + (HEADER + "k,a,0\nl,b,1\n").encode(),
    "quotes": '"client_id","group","label"\n"k","a","0"\n"l","b","1"\n',
    "other columns": "score,label,group,client_id\n0.5,0,a,k\n,1,b,l\n",
    "other column twice": "x,client_id,group,label,x\n,k,a,0,\n,l,b,1,\n",
    "blank lines": HEADER + "\nk,a,0\n   \nl,b,1\n\n\n",
}


@pytest.mark.parametrize("content", GOOD.values(), ids=GOOD)
def test_ways_to_write_the_same_csv(csv: Path, content: str | bytes) -> None:
    assert tables(read(csv, content)) == SAME


@pytest.mark.parametrize("name", ["records.txt", "records", "RECORDS.CSV", "records.csv.gz", "records.zip"])
def test_csv_under_any_name(tmp_path: Path, name: str) -> None:
    assert tables(read(tmp_path / name, GOOD["plain"])) == SAME


def test_records_from_a_pipe() -> None:
    """Which can be read once; the row of what is wrong in it is found all the same."""
    for declared in (DECLARED, RecordDomain(("a", "c"), ("0", "1"))):
        reading, writing = os.pipe()
        os.write(writing, f"{HEADER}k,a,0\nl,b,1\n".encode())
        os.close(writing)
        if declared is DECLARED:
            assert tables(read_records(Path(f"/dev/fd/{reading}"), declared)) == SAME
        else:
            with pytest.raises(RecordsError, match=rf"^/dev/fd/{reading}, row 3: group 'b' is not declared"):
                read_records(Path(f"/dev/fd/{reading}"), declared)
        os.close(reading)


def test_names_with_commas_quotes_and_newlines(csv: Path) -> None:
    domain = RecordDomain(("a, b", 'say "a"'), ("0", "1\n2"))
    records = read(csv, HEADER + '"Doe, J","a, b",0\n"x\ny","say ""a""","1\n2"\n', domain)
    assert tables(records) == {"Doe, J": [1, 0, 0, 0], "x\ny": [0, 0, 0, 1]}


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
def test_mixed_line_ends_change_no_quoted_value(
    csv: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the blocks in which a file is read cut its line ends and its quotation marks."""
    monkeypatch.setattr(tables_of_records, "_BLOCK", block)
    domain = RecordDomain(("a\r\nb", 'c"\rd'), ("0", "1"))
    content = HEADER + '"k","a\r\nb",0\r\n"l","c""\rd",1\r\r"k","a\r\nb",1\n'
    assert tables(read(csv, content, domain)) == {"k": [1, 1, 0, 0], "l": [0, 0, 0, 1]}
    refusal = refused(csv, content + "k,e,0\r\n", domain)
    assert "group 'e' is not declared" in refusal


def test_words_that_pandas_takes_for_missing_are_names(csv: Path, parquet: Path) -> None:
    domain = RecordDomain(("NA", "None"), ("null", "n/a"))
    rows = {"client_id": ["NULL", "None"], "group": ["NA", "None"], "label": ["null", "n/a"]}
    expected = {"NULL": [1, 0, 0, 0], "None": [0, 0, 0, 1]}
    assert tables(read(csv, HEADER + "NULL,NA,null\nNone,None,n/a\n", domain)) == expected
    pa.parquet.write_table(pa.table(rows), parquet)
    assert tables(read_records(parquet, domain)) == expected


NO_UTF8 = "FILE is not UTF-8 text; save it as CSV in UTF-8, or as Parquet."
NEEDS = "it needs client_id, group, label"
SEPARATED = "FILE seems to separate columns by semicolons or tabs; save it with commas."
MEANT = (
    "FILE has no column client_id (did you mean CLIENT_ID?) and no column group (did you mean GROUP?) and no "
    "column label (did you mean LABEL?); it needs client_id, group, label (found: CLIENT_ID, GROUP, LABEL); "
    "rename yours."
)
NOT_CSV = "FILE is not a well-formed CSV file after row"
QUOTED = "; a value with a comma or a line break in it begins and ends with a quotation mark."


def undeclared(row: int, kind: str, value: str, like: str = "") -> str:
    declared = {"group": "a, b", "label": "0, 1"}[kind]
    alike = (
        f"; only blanks, case or Unicode form set it apart from {like!r}: write them alike"
        if like
        else "; declare it, or correct the row"
    )
    return f"FILE, row {row}: {kind} {value!r} is not declared (declared: {declared}){alike}."


def nothing(row: int, column: str) -> str:
    return f"FILE, row {row}: column {column} is empty or NaN; fill it in, or leave the row out."


def ragged(row: int, values: int) -> str:
    mend = "put a value with a comma in it between quotation marks"
    return f"FILE, row {row} has {values} values where the header has 3; {mend}."


BAD: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "FILE is empty; it needs a header with the columns group, label."),
    "header only": (HEADER, "FILE has no records: there is no row below the header."),
    "header and blank lines": (HEADER + "\n\n", "FILE has no records: there is no row below the header."),
    "no label": (
        "client_id,group\nk,a\n",
        f"FILE has no column label; {NEEDS} (found: client_id, group); rename yours.",
    ),
    "no header": (
        "k,a,0\n",
        "FILE has no column group and no column label; it needs group, label (found: k, a, 0); rename yours.",
    ),
    "semicolons": ("client_id;group;label\nk;a;0\n", SEPARATED),
    "tabs": ("client_id\tgroup\tlabel\nk\ta\t0\n", SEPARATED),
    "upper case": ("CLIENT_ID,GROUP,LABEL\nk,a,0\n", MEANT),
    "column twice": ("client_id,group,group,label\nk,a,b,0\n", "FILE has the column group twice; keep one."),
    "undeclared label": (HEADER + "k,a,0\nl,b,2\n", undeclared(3, "label", "2")),
    "undeclared group": (HEADER + "k,c,0\n", undeclared(2, "group", "c")),
    "after blank lines": (HEADER + "\nk,a,0\n  \n\nl,c,0\n", undeclared(6, "group", "c")),
    "after a newline in a name": (HEADER + '"k\n",a,0\nl,c,0\n', undeclared(3, "group", "c")),
    "space before a label": (HEADER + "k,a, 0\n", undeclared(2, "label", " 0", like="0")),
    "no group": (HEADER + "k,a,0\nl,,1\n", nothing(3, "group")),
    "no group in two": (
        HEADER + "k,a,0\nl,,1\nl,,1\n",
        nothing(3, "group").replace(";", ", and so in 1 more;"),
    ),
    "no client": (HEADER + ",a,0\n", nothing(2, "client_id")),
    "nothing in a row": (HEADER + "k,a,0\n,,\n", nothing(3, "client_id")),
    "spaces for a label": (HEADER + "k,a,  \n", nothing(2, "label")),
    "NaN label": (HEADER + "k,a,0\nk,a,0\nl,b,NaN\n", nothing(4, "label")),
    "row too short": (HEADER + "k,a,0\nl,b\n", ragged(3, 2)),
    "a comma after the last value": (HEADER + "k,a,0,\nl,b,1\n", ragged(2, 4)),
    "row too long": (HEADER + "k,a,0\nl,b,1,7\n", ragged(3, 4)),
    "comma in a name": (HEADER + "Doe, J,a,0\n", ragged(2, 4)),
    "quote never closed": (HEADER + 'k,a,0\n"l,b,1\n', f"{NOT_CSV} 2{QUOTED}"),
    "text after a quote": (HEADER + '"k"x,a,0\n', f"{NOT_CSV} 1{QUOTED}"),
    "Latin-1": ((HEADER + "k,\xe9,0\n").encode("latin-1"), NO_UTF8),
    "Latin-1 in the header": ("client_id,group,label,\xe9\n".encode("latin-1"), NO_UTF8),
    "Latin-1 far down": ((HEADER + "k,a,0\n" * 20_000 + "l,\xe9,0\n").encode("latin-1"), NO_UTF8),
    "UTF-16": ((HEADER + "k,a,0\n").encode("utf-16"), NO_UTF8),
    "over the maximum": (
        HEADER + "k,a,0\nl,b,1\n" + "l,a,1\n" * 3,
        "Client 'l' has 4 records, over the declared maximum of 3; leave some out, or declare a larger "
        "--max-count at all clients.",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_csv(csv: Path, bad: str) -> None:
    content, message = BAD[bad]
    assert refused(csv, content) == message


@pytest.mark.parametrize(
    ("content", "kind"), [("k,a,0\nl,a,1\n", "1 group ['a']"), ("k,a,0\nl,b,0\n", "1 label ['0']")]
)
def test_an_inferred_domain_needs_two_of_each(csv: Path, content: str, kind: str) -> None:
    message = refused(csv, HEADER + content, None)
    assert message.startswith(f"The domain has {kind}; fairness between groups needs at least two.")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("k,a,0\nl,b,1\nm,b,1.0\n", "labels '1' and '1.0'"),
        ("k,a,0\nl,a ,1\n", "groups 'a' and 'a '"),
        ("k,not white,0\nl,Not  white,1\n", "groups 'Not  white' and 'not white'"),
        ("k,Espa\u00f1ol,0\nl,Espan\u0303ol,1\n", "groups 'Espan\u0303ol' and 'Espa\u00f1ol'"),
        ("k,a,0\nl,a\u200b,1\n", r"groups 'a' and 'a\u200b'"),
        ("k,\u2066b\u2069,0\nl,b,1\n", r"groups 'b' and '\u2066b\u2069'"),
    ],
)
def test_an_inferred_domain_has_no_name_in_two_spellings(csv: Path, content: str, what: str) -> None:
    assert refused(csv, HEADER + content, None) == (
        f"FILE has the {what}, which look like one; write them alike, or declare both with --domain."
    )
    groups, labels = (tuple({row.split(",")[i] for row in content.splitlines()}) for i in (1, 2))
    assert read(csv, HEADER + content, RecordDomain(groups, labels)).clients > 1


@pytest.mark.parametrize("sign", [*"\ufe0e\ufe0f\u034f\u115f\u1160\u3164\uffa0\u2800\u200d\u00ad\0\x1b\x7f"])
def test_names_do_not_differ_by_a_sign_that_nobody_sees(sign: str) -> None:
    with pytest.raises(RecordDomainError, match="which look like one"):
        refuse_variants(["a", f"a{sign}"], "FILE has the groups")
    refuse_variants(["a", "a\u0301", "b\u2801"], "FILE has the groups")


@pytest.mark.parametrize(
    "names", [("1e400", "2e400"), ("9007199254740992", "9007199254740993"), ("inf", "1e999"), ("0.1", "0.11")]
)
def test_numbers_that_differ_do_not_look_like_one(csv: Path, names: tuple[str, str]) -> None:
    first, second = names
    found = read(csv, HEADER + f"k,{first},0\nl,{second},1\n", None).domain.groups
    assert set(found) == set(names)


def test_labels_that_look_like_row_ids_are_asked_about(csv: Path) -> None:
    rows = [f"k{i},{'ab'[i % 2]},{i}" for i in range(MOST_INFERRED + 1)]
    message = refused(csv, HEADER + "\n".join(rows), None)
    assert message == (
        f"FILE has {MOST_INFERRED + 1} different labels, as an ID of rows would have; put the labels in the "
        "column label, or declare all of them with --domain."
    )
    assert len(read(csv, HEADER + "\n".join(rows[1:]), None).domain.labels) == MOST_INFERRED


def test_an_unknown_name_that_looks_like_a_declared_one_is_told(csv: Path) -> None:
    declared = RecordDomain(("Asian, other", "Espa\u00f1ol"), ("0", "1"))
    message = refused(csv, HEADER + "k,Espan\u0303ol,0\n", declared)
    assert "(declared: 'Asian, other', Espa\u00f1ol)" in message
    assert "only blanks, case or Unicode form set it apart from 'Espa\u00f1ol': write them alike." in message


def test_an_inferred_domain_is_sorted_and_says_so(csv: Path) -> None:
    domain = read(csv, HEADER + "k,b,1\nl,a,10\nm,c,9\n", None).domain
    assert domain == RecordDomain(("a", "b", "c"), ("1", "10", "9"), DEFAULT_MAX_COUNT, inferred=True)
    assert not DECLARED.inferred


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        (tmp_path / f"directory.{suffix}").mkdir()
        for name in (f"directory.{suffix}", f"missing.{suffix}", f"*.no.{suffix}"):
            with pytest.raises(
                RecordsError, match=r" holds no CSV or Parquet file\.$|^Cannot read "
            ) as error:
                read_records(tmp_path / name, DECLARED)
            assert str(error.value).endswith(".") and "\n" not in str(error.value)


NULL = None
COLUMNS: dict[str, Callable[[], Any]] = {
    "integers": lambda: [0, 1],
    "small integers": lambda: pa.array([0, 1], pa.uint8()),
    "floats": lambda: [0.0, 1.0],
    "strings": lambda: ["0", "1"],
    "large strings": lambda: pa.array(["0", "1"], pa.large_string()),
    "dictionary of strings": lambda: pa.array(["0", "1"]).dictionary_encode(),
    "dictionary of integers": lambda: pa.array([0, 1]).dictionary_encode(),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_parquet_columns(parquet: Path, column: str) -> None:
    table = pa.table(
        {"client_id": ["k", "l"], "group": ["a", "b"], "label": COLUMNS[column](), "x": [1, NULL]}
    )
    pa.parquet.write_table(table, parquet)
    assert tables(read_records(parquet, DECLARED)) == SAME


def test_parquet_under_its_short_name(tmp_path: Path) -> None:
    path = tmp_path / "RECORDS.PQ"
    pa.parquet.write_table(pa.table({"client_id": ["k", "l"], "group": ["a", "b"], "label": [0, 1]}), path)
    assert tables(read_records(path, DECLARED)) == SAME


def test_parquet_with_the_client_as_index(parquet: Path) -> None:
    frame = pd.DataFrame({"client_id": ["k", "l"], "group": ["a", "b"], "label": [0, 1]})
    frame.set_index("client_id").to_parquet(parquet)
    assert tables(read_records(parquet, DECLARED)) == SAME


MISSING: dict[str, Callable[[], Any]] = {
    "null among integers": lambda: [0, NULL],
    "null among strings": lambda: ["0", NULL],
    "NaN among floats": lambda: [0.0, float("nan")],
    "null in a dictionary": lambda: pa.array(["0", NULL]).dictionary_encode(),
    "the text nan": lambda: ["0", "nan"],
}


@pytest.mark.parametrize("column", MISSING)
def test_parquet_missing_values(parquet: Path, column: str) -> None:
    pa.parquet.write_table(
        pa.table({"client_id": [1, 2], "group": ["a", "b"], "label": MISSING[column]()}), parquet
    )
    assert refused_parquet(parquet) == nothing(2, "label")


def refused_parquet(path: Path) -> str:
    with pytest.raises(RecordsError) as error:
        read_records(path, DECLARED)
    assert_readable(error.value)
    return str(error.value).replace(str(path), "FILE")


def test_bad_parquet(parquet: Path) -> None:
    for content in (b"", b"client_id,group,label\n"):
        parquet.write_bytes(content)
        assert re.fullmatch(
            r"Cannot read FILE: .*(too small to be a Parquet file|No magic bytes).*\.",
            refused_parquet(parquet),
        )
    pa.parquet.write_table(pa.table({"client_id": [1], "group": ["a"]}), parquet)
    assert (
        refused_parquet(parquet)
        == f"FILE has no column label; {NEEDS} (found: client_id, group); rename yours."
    )
    columns = [pa.array(["k"]), pa.array(["a"]), pa.array(["b"]), pa.array([0])]
    pa.parquet.write_table(pa.Table.from_arrays(columns, ["client_id", "group", "group", "label"]), parquet)
    assert refused_parquet(parquet) == "FILE has the column group twice; keep one."
    no_rows = pa.table({name: pa.array([], pa.string()) for name in ("client_id", "group", "label")})
    pa.parquet.write_table(no_rows, parquet)
    assert refused_parquet(parquet) == "FILE has no records: there is no row below the header."
    pa.parquet.write_table(pa.table({"client_id": [1], "group": ["a"], "label": [0.5]}), parquet)
    assert refused_parquet(parquet) == undeclared(1, "label", "0.5")


@pytest.mark.parametrize(
    "ids",
    [[2**64 - 1, 2**64 - 2], [1e20, 2e300], [2.0**53, 1.0], [float("inf"), 1.0], [1.5, 2.5], [True, False]],
    ids=str,
)
def test_distinct_clients_stay_distinct(parquet: Path, ids: list[Any]) -> None:
    column = pa.array(ids, pa.uint64()) if isinstance(ids[0], int) and ids[0] > 2**63 else pa.array(ids)
    pa.parquet.write_table(pa.table({"client_id": column, "group": ["a", "b"], "label": [0, 1]}), parquet)
    assert read_records(parquet, DECLARED).clients == 2


def test_damaged_parquet(parquet: Path) -> None:
    rows = {"client_id": list(range(5000)), "group": ["a", "b"] * 2500, "label": [0, 1] * 2500}
    pa.parquet.write_table(pa.table(rows), parquet)
    raw = bytearray(parquet.read_bytes())
    raw[200:3000] = bytes([0x55]) * 2800
    parquet.write_bytes(raw)
    assert re.fullmatch(r"Cannot read FILE: [^.]*\.", refused_parquet(parquet))


def test_a_table_in_memory_has_rows_by_its_index() -> None:
    frame = pd.DataFrame({"client_id": ["k", "l"], "group": ["a", "x"], "label": ["0", "1"]}, index=[7, 8])
    with pytest.raises(RecordsError, match=r"^The table, row 8: group 'x' is not declared"):
        read_records(frame, DECLARED)


@pytest.mark.parametrize(("clients", "fits"), [(1, True), (2, False), (3, False)])
def test_the_sum_over_all_clients_must_fit(csv: Path, clients: int, fits: bool) -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 2**61)
    content = HEADER + "".join(f"k{i},a,0\n" for i in range(clients))
    if fits:
        assert clients * domain.max_count < MAX_TOTAL
        assert read(csv, content, domain).clients == clients
    else:
        message = refused(csv, content, domain)
        assert message.endswith(f"could overflow the sum; declare a --max-count below {2**62 // clients}.")


@pytest.mark.parametrize(
    ("groups", "labels", "max_count", "message"),
    [
        ((), ("0", "1"), 1, r"has 0 groups \[\]; .* needs at least two"),
        (("a",), ("0", "1"), 1, r"has 1 group \['a'\]; .* Declare all with --groups a,b"),
        (("a", "b"), ("0",), 1, r"has 1 label \['0'\]; .* Declare all with --labels a,b"),
        (("a", "a"), ("0", "1"), 1, "must be distinct and not empty"),
        (("a", ""), ("0", "1"), 1, "must be distinct and not empty"),
        (("a", "b"), ("0", "1"), 0, r"must be 1 to 2\^62 - 1, not 0"),
        (("a", "b"), ("0", "1"), 2**62, r"must be 1 to 2\^62 - 1, not"),
    ],
)
def test_domains_that_make_no_sense(
    groups: tuple[str, ...], labels: tuple[str, ...], max_count: int, message: str
) -> None:
    with pytest.raises(RecordDomainError, match=message) as error:
        RecordDomain(groups, labels, max_count)
    assert_readable(error.value)


def test_domain_file_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(DECLARED.to_json()), encoding="utf-8")
    assert read_domain(path) == DECLARED
    path.write_text('{"labels": ["1", "0"], "groups": ["é", "b"]}', encoding="utf-8")
    assert read_domain(path) == RecordDomain(("b", "é"), ("0", "1"), DEFAULT_MAX_COUNT)


NOT_ONE = "^The domain file is not a domain: "


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], NOT_ONE),
        ({"groups": ["a", "b"]}, f"{NOT_ONE}object missing required field `labels`; it is written like"),
        (
            {"groups": ["a", "b"], "labels": ["0", "1"], "clients": 3},
            f"{NOT_ONE}it has an unknown key 'clients'",
        ),
        ({"groups": "ab", "labels": ["0", "1"]}, f"{NOT_ONE}expected `array`, got `str` at `groups`"),
        ({"groups": ["a", "b"], "labels": [0, 1]}, r"expected `str`, got `int` at `labels\[0\]`"),
        ({"groups": ["a", "b"], "labels": ["0", None]}, r"got `null` at `labels\[1\]`"),
        ({"groups": ["a", "b"], "labels": ["0", "1"], "max_count": True}, "got `bool` at `max_count`"),
        ({"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 1.0}, "got `float` at `max_count`"),
        ({"groups": ["a", "b"], "labels": ["0", "1"], "max_count": "9"}, "got `str` at `max_count`"),
        ({"groups": ["a", "b"], "labels": ["0", "1"], "max_count": None}, "got `null` at `max_count`"),
        ({"groups": ["a", "b"], "labels": ["0", "1"], "cap": None}, "null says nothing, leave that key out"),
        ({"groups": ["a"], "labels": ["0", "1"]}, "The domain has 1 group"),
    ],
)
def test_bad_domain_json(found: JsonValue, message: str) -> None:
    with pytest.raises(RecordDomainError, match=message) as error:
        domain_from_json(found, "The domain file")
    assert_readable(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"groups: [a, b]", b"\xff{}", b'{"groups": ["\xe9"]}'])
def test_a_domain_file_that_is_not_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "domain.json"
    path.write_bytes(content)
    with pytest.raises(RecordDomainError, match="is not a domain: it is not JSON in UTF-8"):
        read_domain(path)


def test_a_domain_file_that_is_not_there(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "it is no regular file"), (tmp_path / "x", "No such file or directory")):
        with pytest.raises(RecordDomainError, match=f"^Cannot read {path}: {why}; it is written like"):
            read_domain(path)


def test_a_csv_file_of_groups_and_labels_takes_no_pandas(tmp_path: Path) -> None:
    """Which takes longer to import than all else that a run of 400 records does."""
    file = tmp_path / "records.csv"
    file.write_text("client_id,group,label\nc,a,0\nd,b,1\n")
    program = (
        "import sys, pathlib; from fairshares.harness.inputs.records import read_records;"
        "print(read_records(pathlib.Path(sys.argv[1]), None).clients, 'pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"
