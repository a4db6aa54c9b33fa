"""What `bench.export` makes of runs: tables that anybody can read."""

import json
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from benchmarks.measure.samples import Sample, append, by_cell, load
from benchmarks.report.export import export
from benchmarks.report.tables import latex_table, table_of_cells, table_of_runs
from benchmarks.suites import SUITES
from benchmarks.validation.cells import RESULTS
from fairshares.harness.engines.execution import TIMES, PhaseCosts, Printed


def run(seconds: float, number: int = 0, security: str = "ring") -> Sample:
    cell = {
        "protocol": "pi_rw",
        "variant": "default",
        "shape": "ads",
        "network": "none",
        "security": security,
    }
    times = {**dict.fromkeys(TIMES), "mpc_s": seconds, "party_mpc_s": [seconds, seconds / 2]}
    fields = {"rounds": 9, "sent_bytes": (10, 20), "peak_memory_bytes": (5, 6), "program_hash": "p"}
    fields["compile_options"] = ("-R", "64")
    return Sample("some", cell, number, "ok", "2026-01-01", {"cores": 2}, times=times, **fields)  # type: ignore[arg-type]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = tmp_path / "results"
    directory.mkdir()
    (directory / "about.json").write_text("{}")
    for sample in [
        replace(run(9.0), warm_up=True),
        *(run(1.0 + i, i) for i in range(3)),
        run(4.0, security="semi2k"),
    ]:
        append(directory / "samples.jsonl", sample, schema=1)
    return directory


def test_exported_tables_hold_every_run_and_no_lists(results: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    export(results, out)
    from_parquet = duckdb.read_parquet(str(out / "runs.parquet")).df()
    for table in (pd.read_csv(out / "runs.csv"), from_parquet):
        assert table["times.mpc_s"].tolist() == [9.0, 1.0, 2.0, 3.0, 4.0]
        assert table["warm_up"].tolist() == [True, False, False, False, False]
        assert table["sent_bytes.0"].tolist() == [10] * 5 and table["sent_bytes.1"].tolist() == [20] * 5
        assert table["times.party_mpc_s.1"].tolist() == [4.5, 0.5, 1.0, 1.5, 2.0]
        assert set(table["compile_options"]) == {"-R 64"}
    for path in sorted(out.glob("*.parquet")):
        kinds = {str(kind) for kind in duckdb.read_parquet(str(path)).types}
        assert kinds <= {"VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"}
    for path in sorted(out.glob("*.csv")):
        assert not re.search(r"[\[\](){}]", path.read_text())
    assert (out / "cells.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads((out / "measured" / "about.json").read_text()) == {}


def test_a_cell_has_a_column_for_each_statistic(results: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    export(results, out)
    ring, semi2k = pd.read_csv(out / "cells.csv").to_dict("records")
    assert (ring["cell.security"], ring["runs"], ring["failed"], ring["skipped"]) == ("ring", 3, 0, 0)
    names = ("median", "least", "most", "quartile_1", "quartile_3", "mean", "deviation")
    assert [ring[f"mpc_s.{name}"] for name in names] == [2.0, 1.0, 3.0, 1.5, 2.5, 2.0, 1.0]
    assert (ring["rounds"], ring["sent_bytes"], ring["peak_memory_bytes"]) == (9, 30, 6)
    assert (semi2k["runs"], semi2k["mpc_s.median"]) == (1, 4.0)
    for nothing in (ring["mpc_s.low"], semi2k["mpc_s.deviation"], semi2k["online_s.median"]):
        assert pd.isna(nothing)
    six = table_of_cells([[run(1.0 + number, number) for number in range(6)]])
    assert six[["mpc_s.low", "mpc_s.high"]].values.tolist() == [[1.0, 6.0]]


def test_a_cell_without_good_runs_says_why() -> None:
    failed = replace(run(1.0), status="failed", reason="Party 1, of 3, ended: it was killed.")
    (line,) = table_of_cells([[failed]]).to_dict("records")
    assert (line["runs"], line["failed"], line["reason"]) == (0, 1, failed.reason)
    assert pd.isna(line["mpc_s.median"])
    assert [row[-1] for row in rows_of(latex_table([[failed]]))] == ["ring", "--"]


def rows_of(text: str) -> list[list[str]]:
    """Return the rows of LaTeX tables, as strictly as LaTeX with booktabs reads them.

    Each table is one `tabular` with its three rules in order. A row has as many cells as the table has
    columns, and ends with a double backslash. Outside commands no character is left that LaTeX would read as
    one, and braces are in pairs.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("%")]
    assert lines and text.isascii()
    rows = []
    state = "outside"
    after = {"outside": r"\toprule", r"\toprule": r"\midrule", r"\midrule": r"\bottomrule"}
    columns = 0
    for line in lines:
        begun = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", line)
        if begun:
            assert state == "outside"
            columns = len(begun[1])
        elif line == r"\end{tabular}":
            assert state == r"\bottomrule"
            state = "outside"
        elif line in (r"\toprule", r"\midrule", r"\bottomrule"):
            assert after[state] == line
            state = line
        else:
            assert state in (r"\toprule", r"\midrule") and line.endswith(r" \\")
            cells = re.split(r" (?<!\\)& | (?<!\\)&$|^& ", line.removesuffix(r" \\"))
            assert len(cells) == columns, line
            for cell in cells:
                known = r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater)\{\}"
                plain = re.sub(known + r"|\\[{}&%$#_]|\\scriptsize ", "", cell)
                assert not re.search(r"[\\&%$#_~^<>]", plain), cell
                depth = 0
                for character in plain:
                    depth += {"{": 1, "}": -1}.get(character, 0)
                    assert depth >= 0
                assert depth == 0, cell
            rows.append([cell.strip() for cell in cells])
    assert state == "outside"
    return rows


def test_the_latex_table_goes_into_a_paper_as_it_is(results: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    export(results, out)
    text = (out / "table.tex").read_text()
    assert rows_of(text) == [["semi2k", "ring"], ["4.00", "2.00"], ["", r"{\scriptsize [1.0, 3.0]}"]]
    assert "% In all rows: protocol pi_rw, variant default, shape ads, network none.\n" in text
    for suite in SUITES:
        table = latex_table(list(by_cell(load(RESULTS / suite)).values()))
        assert len(rows_of(table)) > 2 and all(len(row) <= 20 for row in rows_of(table))


def test_levels_of_users_programs_are_no_commands_of_latex() -> None:
    odd = r"a_b & c% --x {y} $z$ #1 ~ ^ \input{/etc/passwd} <>"
    cells = [
        [replace(run(1.0), cell={"program": "my_own.mpc", "arguments": text, "security": "ring"})]
        for text in (odd, "\nplain")
    ]
    head, *rows = rows_of(latex_table(cells))
    assert head == ["arguments", "ring"] and [row[1] for row in rows] == ["1.00", "1.00"]
    (shown,) = (row[0] for row in rows if row[0] != "plain")
    assert r"a\_b \& c\% -{}-x \{y\} \$z\$ \#1" in shown and r"\textbackslash{}input\{" in shown


def test_a_machine_is_no_model_of_its_name() -> None:
    cells = [
        [replace(run(1.0), cell={"program": "my.mpc", "security": "semi2k"})],
        [replace(run(2.0), cell={"program": "my.mpc", "machine": "semi2k", "parties": 3})],
    ]
    head, *rows = rows_of(latex_table(cells))
    assert head == ["parties", "semi2k", "semi2k-party.x"]
    assert rows == [["3", "--", "2.00"], ["", "1.00", "--"]]
    names = table_of_cells(cells)["name"].tolist()
    assert names == ["my.mpc", "my.mpc.3 parties"]


def test_phases_are_columns_and_printed_text_too() -> None:
    phases = {"timer_1": (PhaseCosts(0.5, 100, 3), PhaseCosts(0.7, 50, 4))}
    printed = (Printed("a\nb\n", 4), Printed("", 0))
    first = replace(run(1.0), phases=phases, printed=printed)
    slower = {"timer_1": (PhaseCosts(0.9, 100, 3), PhaseCosts(0.7, 70, 4))}
    (line,) = table_of_cells([[first, replace(run(1.0, 1), phases=slower)]]).to_dict("records")
    assert (line["timer_1.seconds.median"], line["timer_1.seconds.most"]) == pytest.approx((0.8, 0.9))
    assert (line["timer_1.sent_bytes"], line["timer_1.rounds"]) == (160, 4)
    (row,) = table_of_runs([first]).to_dict("records")
    assert (row["phases.timer_1.1.seconds"], row["phases.timer_1.0.sent_bytes"]) == (0.7, 100)
    assert (row["printed.0.text"], row["printed.0.size"]) == ("a\nb\n", 4)


@pytest.mark.parametrize("broken", [r"a & b & c \\", r"a_1 & b \\", r"a & {b \\", "a & b"])
def test_the_reader_of_tables_refuses_what_latex_would(broken: str) -> None:
    text = "\n".join(
        [r"\begin{tabular}{lr}", r"\toprule", broken, r"\midrule", r"\bottomrule", r"\end{tabular}"]
    )
    with pytest.raises(AssertionError):
        rows_of(text)
