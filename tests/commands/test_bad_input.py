"""Every mistake ends in one or two sentences: no traceback, nothing written, no process left."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command import call, command, files_below, processes_below, start

HEADER = "client_id,group,label\n"
GOOD = HEADER + "c0,a,0\nc1,b,1\nc2,b,0\n"
FILES = {
    "good.csv": GOOD,
    "no-group.csv": "client_id,label\nc0,0\n",
    "empty.csv": "",
    "capitals.csv": "Client_ID,Group,Label\nc0,a,0\nc1,b,1\n",
    "no-records.csv": HEADER,
    "undeclared-label.csv": GOOD + "c3,a,2\n",
    "undeclared-group.csv": GOOD + "c3,d,1\n",
    "one-group.csv": HEADER + "c0,a,0\nc1,a,1\n",
    "one-label.csv": HEADER + "c0,a,0\nc1,b,0\n",
    "nan.csv": GOOD + "c3,a,nan\n",
    "blank.csv": GOOD + ",a,1\n",
    "two-groups.csv": GOOD + "c0,b,0\n",
    "domain.json": json.dumps({"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 2}),
    "one-label.json": json.dumps({"groups": ["a", "b"], "labels": ["0"]}),
    "not.json": "groups: a, b\n",
}
DECLARED = "--groups a,b --labels 0,1"

RECORDS = {
    "no column": ("no-group.csv", r"no-group\.csv has no column group; it needs client_id, group, label"),
    "capitals": ("capitals.csv", r"write them exactly so, in small letters"),
    "empty": ("empty.csv", r"empty\.csv is empty"),
    "no records": ("no-records.csv", r"no-records\.csv has no records"),
    "undeclared label": (
        f"undeclared-label.csv {DECLARED}",
        r"undeclared-label\.csv, row 5: label '2' is not declared \(declared: 0, 1\)",
    ),
    "undeclared group": (
        "undeclared-group.csv --domain domain.json",
        r"undeclared-group\.csv, row 5: group 'd' is not declared \(declared: a, b\)",
    ),
    "one group": ("one-group.csv", r"1 group \['a'\].* needs at least two"),
    "one label": ("one-label.csv", r"1 label \['0'\].* needs at least two"),
    "no records allowed": (
        f"good.csv {DECLARED} --max-count 0",
        r"--max-count must be a whole number of at least 1, for example 2\^31; got '0'",
    ),
    "over the maximum": (
        f"two-groups.csv {DECLARED} --max-count 1",
        r"Client 'c0' has 2 records, over the declared maximum of 1",
    ),
    "nan": ("nan.csv", r"nan\.csv, row 5: column label is empty or NaN"),
    "blank": ("blank.csv", r"blank\.csv, row 5: column client_id is empty"),
    "not UTF-8": ("latin-1.csv", r"latin-1\.csv is not UTF-8 text"),
    "not there": ("nowhere.csv", r"Cannot read nowhere\.csv: No such file or directory"),
    "directory": ("directory.csv", r"directory\.csv is a directory; name the CSV or Parquet file in it"),
    "unreadable": ("loop.csv", r"Cannot read loop\.csv: Too many levels of symbolic links"),
    "not Parquet": ("no.parquet", r"no\.parquet is not a readable Parquet file"),
    "two groups in product form": (
        "two-groups.csv --input-form product",
        r"Client 'c0' has records of two groups.* use --input-form split",
    ),
    "one label declared": ("good.csv --domain one-label.json", "1 label"),
    "no JSON": ("good.csv --domain not.json", r"not\.json is not a domain: it is not JSON"),
    "declared twice": (f"good.csv --domain domain.json {DECLARED}", "either by --domain or by --groups"),
    "half declared": ("good.csv --groups a,b", "--groups and --labels go together"),
    "out exists": ("good.csv --out there", r"there exists already; name another directory"),
    "out is below a file": (
        "good.csv --out good.csv/results",
        r"Cannot write to good\.csv, which is not a directory",
    ),
    "shares, too": ("good.csv --shares there", "either --records .* or --shares"),
}

OPTIONS = {
    "epsilon too small": ("--records good.csv --epsilon 1e-9", r"--epsilon .*must be|between 10\^-7 and 20"),
    "delta too small": ("--records good.csv --epsilon 1 --delta 2^-200", r"No noise fits .* 2\^-128"),
    "input form": (
        "--records good.csv --epsilon 1 --input-form sum",
        "--input-form must be split or product",
    ),
    "neither records nor shares": ("--epsilon 1", "either --records .* or --shares"),
    "no such shares": (
        "--epsilon 1 --shares nowhere",
        "nowhere holds no shares: there is neither a directory party-0",
    ),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with all these files; no test may change it."""
    made = tmp_path / "directory"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "latin-1.csv").write_bytes((HEADER + "c0,é,0\nc1,b,1\n").encode("latin-1"))
    (made / "no.parquet").write_text(GOOD)
    (made / "directory.csv").mkdir()
    (made / "there").mkdir()
    (made / "loop.csv").symlink_to("loop.csv")  # which root cannot read, either
    return made


def check_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    """Check that a command ended with one or two sentences that say so."""
    steps = r"(?:[a-z][^\n]*: \d+\.\d\d s\n|Model: [^\n]*\n)*"
    found = re.fullmatch(rf"{steps}Error: ([^\n]*)\n", done.stderr)
    assert done.returncode == 1 and done.stdout == ""
    assert found is not None, done.stderr
    assert re.search(message, found[1]), found[1]
    assert found[1].endswith(".") and len(re.findall(r"[.] [A-Z]", found[1])) <= 1
    assert len(found[1]) < 300


def weights(options: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return call("weights", *options.split(), cwd=directory)


def check_untouched(directory: Path) -> None:
    assert files_below(directory) == {
        *FILES,
        "latin-1.csv",
        "no.parquet",
        "directory.csv",
        "there",
        "loop.csv",
    }
    assert processes_below(directory) == {}


@pytest.mark.parametrize(("options", "message"), RECORDS.values(), ids=RECORDS)
def test_bad_records(options: str, message: str, directory: Path) -> None:
    check_refused(weights(f"--security mpyc --epsilon 1 --records {options}", directory), message)
    check_untouched(directory)


@pytest.mark.parametrize(("options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_bad_options(options: str, message: str, directory: Path) -> None:
    check_refused(weights(f"--security mpyc {options}", directory), message)
    check_untouched(directory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--security nonsense", "There is no model 'nonsense'; choose one of semi2k, ring, "),
        ("--security spdz2k --input-form product", "spdz2k cannot do this. Input form 'product' multiplies"),
        (
            "--security sy-rep-ring --input-form product",
            "clients, --input-form split, or a passive model",
        ),
        (
            "--security rep4-ring --input-form product",
            "clients or replicated, --input-form split, or a passive model",
        ),
    ],
)
def test_models_that_cannot_do_it(options: str, message: str, directory: Path) -> None:
    check_refused(weights(f"--records good.csv --epsilon 1 {options}", directory), message)
    check_untouched(directory)


def test_a_virtual_machine_that_is_not_built(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "compile.py").touch()
    (tmp_path / "CHANGELOG.md").write_text("## 0.4.3\n")
    arguments = ("weights", "--records", "good.csv", "--epsilon", "1", "--security", "semi2k")
    done = command(*arguments, cwd=directory, environment={"MP_SPDZ_HOME": str(tmp_path)})
    check_refused(done, rf"MP-SPDZ at {re.escape(str(tmp_path))} has no semi2k-party\.x; its documentation")
    check_untouched(directory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("share --records good.csv --out new", "share needs --domain, or --groups and --labels"),
        (f"share --records nowhere.csv {DECLARED} --out new", "Cannot read nowhere"),
        ("aggregate --party 0 --shares nowhere --out new", "nowhere"),
        ("quickstart --security mpyc --epsilon 0 --out new", "--epsilon must be"),
        ("quickstart --security nonsense --out new", "There is no model 'nonsense'"),
        ("quickstart --security mpyc --out there", "there exists already"),
    ],
)
def test_other_commands(arguments: str, message: str, directory: Path) -> None:
    check_refused(call(*arguments.split(), cwd=directory), message)
    check_untouched(directory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "weights --records good.csv",
            "Error: --epsilon is missing; give it a value, for example --epsilon 1.",
        ),
        ("share --out shares", "Error: --records is missing; give it a value, for example --records my.csv."),
        (
            "weights --record good.csv --epsilon 1",
            "weights has no option --record (did you mean --records?); `./inv weights --help` explains all.",
        ),
        (
            "weights --records good.csv --epsilon",
            "Error: --epsilon needs a value; `./inv weights --help` explains it.",
        ),
        (
            "weights --records good.csv --epsilon 1 --noise off",
            "Error: --noise must be joint, own or distributed-gaussian; got 'off'.",
        ),
        (
            "weigh --records good.csv --epsilon 1",
            "Error: There is no command 'weigh' (did you mean weights?); `./inv` lists all.",
        ),
        ("weights good.csv", "Error: 'good.csv' belongs to no option of weights; values go by name, "),
        ("--records good.csv", "Error: There is no command '--records'; `./inv` lists all."),
    ],
)
def test_missing_and_unknown_options(arguments: str, message: str, directory: Path) -> None:
    done = call(*arguments.split(), cwd=directory)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    check_untouched(directory)


def test_help_and_version_are_under_our_name(directory: Path) -> None:
    said = call("--help", "weights", cwd=directory).stdout
    assert said.startswith("Usage: ./inv weights [options]\n\nCompute DP sample weights")
    assert "--epsilon=… " in said and "STRING" not in said
    assert call("--list", cwd=directory).stdout.startswith("Commands; `./inv COMMAND --help` explains")
    assert re.fullmatch(r"FairShares \d\S+\n", call("--version", cwd=directory).stdout)


def test_as_a_process_of_its_own(directory: Path) -> None:
    done = command("weights", "--records", "good.csv", "--epsilon", "-1", cwd=directory)
    check_refused(done, "--epsilon must be a number above 0 and at most 20, for example 1; got '-1'")
    check_untouched(directory)


def test_a_reader_who_leaves_early_gets_no_traceback(directory: Path) -> None:
    process = start("--list", cwd=directory)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 1
    process.stderr.close()
