"""Every mistake ends in one or two sentences: no traceback, nothing written, no process left.

What a single option takes is tried where it is read (tests/harness/cli/test_parsers.py, test_options.py).
"""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.privacy.ledger.entries import default_path
from tests.support.command import CODES, call, command, files_below, processes_below, start
from tests.support.envelopes import VECTORS

HEADER = "client_id,group,label\n"
GOOD = HEADER + "c0,a,0\nc1,b,1\nc2,b,0\n"
SCORED = "client_id,group,label,score\n" + "c0,a,0,0.5\nc1,b,1,0.9\nc1,b,1,0.2\n"
TWO = {"groups": ["a", "b"], "labels": ["0", "1"]}
EXPERIMENT = """
name = "mine"
title = "Some noise"
repetitions = 1
factors = {protocol = "pi_lap", variant = "default", network = "none", epsilon = "1", security = "mpcy"}
[[grid]]
factors.samples = [1, 2]
"""
FILES = {
    "good.csv": GOOD,
    "task.json": json.loads(VECTORS.read_text())[0]["task"],
    "no-group.csv": "client_id,label\nc0,0\n",
    "empty.csv": "",
    "capitals.csv": "Client_ID,Group,Label\nc0,a,0\nc1,b,1\n",
    "no-records.csv": HEADER,
    "undeclared-label.csv": GOOD + "c3,a,2\n",
    "one-group.csv": HEADER + "c0,a,0\nc1,a,1\n",
    "nan.csv": GOOD + "c3,a,nan\n",
    "blank.csv": GOOD + ",a,1\n",
    "two-groups.csv": GOOD + "c0,b,0\n",
    "scored.csv": SCORED,
    "score.csv": SCORED + "c0,a,1,1.5\n",
    "values.csv": "client_id,group,value\nc0,a,16/20\nc1,b,0.5\n",
    "domain.json": json.dumps({**TWO, "max_count": 2}),
    "capped.json": json.dumps({**TWO, "cap": 10}),
    "one-label.json": json.dumps({"groups": ["a", "b"], "labels": ["0"]}),
    "three-labels.json": json.dumps({**TWO, "labels": ["0", "1", "2"], "thresholds": 11}),
    "not.json": "groups: a, b\n",
    "features.json": json.dumps({"age": {"low": 0, "high": 9}}),
    "mine.toml": EXPERIMENT,
    "hosts.toml": "".join(
        f'[[host]]\nparty = {i}\naddress = "h{i}"\ndirectory = "/d"\nproject = "/p"\nport = 1\n'
        for i in range(4)
    ),
    "my.mpc": "print_ln('OUT x 1')\n",
}
OTHERS = {"latin-1.csv", "no.parquet", "directory.csv", "there", "there-cap", "loop.csv"}
DECLARED = "--groups a,b --labels 0,1"
RUN = f"--records good.csv --epsilon 1 --security mpyc {DECLARED}"
INFERRED = "--security mpyc --epsilon 1 --records"
OF_SLOTS = (
    "Input form slots has .*: say --privacy-unit client with --cap 10, for example, or leave out --input-form"
)
CLIENT = f"weights {RUN} --privacy-unit client"
CONFUSION = f"confusion --epsilon 1 --security mpyc {DECLARED} --records"
CURVES = f"thresholds --epsilon 1 --security mpyc {DECLARED} --records"
CAP = "cap --records good.csv --security mpyc"
ONE_CAP = f"{CAP} --epsilon 1 --release-epsilon 1"
AUTO = "weights --security mpyc --records two-groups.csv --epsilon 20 --privacy-unit client --cap auto"
INVITE = "weights --epsilon 1 --security rep4-ring --invite d --clients"
PLAN = "weights --epsilon 1 --plan"
TRAIN = "train --records good.csv --features features.json --epsilon 9 --security mpyc"

LONG = "n" * 256  # bytes that no name in a path may have
TOO_LONG = r"^Cannot use \S*n{90}\S*…: File name too long; name another by --"

RECORDS = [
    ("no-group.csv", r"no-group\.csv has no column group; it needs client_id, group, label"),
    ("capitals.csv", "no column group .did you mean Group.."),
    ("empty.csv", r"empty\.csv is empty"),
    ("no-records.csv", r"no-records\.csv has no records"),
    (f"undeclared-label.csv {DECLARED}", r"row 5: label '2' is not declared \(declared: 0, 1\)"),
    ("one-group.csv", r"1 group \['a'\].* needs at least two"),
    (f"two-groups.csv {DECLARED} --max-count 1", "Client 'c0' has 2 records, over the declared maximum of 1"),
    ("nan.csv", r"nan\.csv, row 5: column label is empty or NaN"),
    ("blank.csv", r"blank\.csv, row 5: column client_id is empty"),
    ("latin-1.csv", r"latin-1\.csv is not UTF-8 text"),
    ("nowhere.csv", r"Cannot read nowhere\.csv: No such file or directory"),
    ("directory.csv", r"directory\.csv is a directory that holds no CSV or Parquet file"),
    ("loop.csv", r"Cannot read loop\.csv: Too many levels of symbolic links"),
    ("no.parquet", r"^Cannot read .*no\.parquet: .*(P|p)arquet"),
    ("two-groups.csv --input-form product", "Client 'c0' has records of two groups.* --input-form split"),
    ("good.csv --domain one-label.json", "1 label"),
    ("good.csv --domain not.json", r"not\.json is not a domain: it is not JSON"),
    (f"good.csv --domain domain.json {DECLARED}", "either by --domain or by --groups"),
    ("good.csv --groups a,b", "--groups and --labels go together"),
    ("good.csv --out there", "there exists already; name another directory"),
    ("good.csv --out good.csv/results", r"Cannot write to good\.csv, which is not a directory"),
    (f"good.csv --out {LONG}", f"{TOO_LONG}out"),
    (f"good.csv --out there/{LONG}", f"{TOO_LONG}out"),
    ("good.csv --shares there", "either --records .* or --shares"),
    ("good.csv --chain monthly", "--chain counts each upload once"),
    ("good.csv --delta 2^-200", r"No noise fits .* 2\^-128"),
]
MODELS = [
    ("--security nonsense", "There is no model 'nonsense'; choose one of semi2k, ring, "),
    ("--security spdz2k --input-form product", "spdz2k cannot do this. Input form 'product' multiplies"),
    ("--security sy-rep-ring --input-form product", "clients, --input-form split, or a passive model"),
    ("--security rep4-ring --input-form product", "clients or replicated, --input-form split, or a passive"),
]
COMMANDS: list[Any] = [
    # What is typed.
    ("weights --records good.csv", "--epsilon is missing; give it a value, for example --epsilon 1"),
    (
        "share --task task.json --out shares",
        "--records is missing; give it a value, for example --records my.csv",
    ),
    ("weights --record good.csv --epsilon 1", r"no option --record \(did you mean --records\?\)"),
    ("weigh --records good.csv --epsilon 1", r"There is no command 'weigh' \(did you mean weights\?\)"),
    # Where a run's values come from.
    ("weights --security mpyc --epsilon 1", "either --records .* or --shares"),
    ("weights --security mpyc --epsilon 1 --shares nowhere", "nowhere holds no shares"),
    (f"weights {RUN} --input-path mail", "--input-path must be shares, clients or replicated; got 'mail'"),
    ("weights --epsilon 1 --shares s --input-path clients", "Shares were sent before the run"),
    pytest.param(
        f"{INVITE} 3",
        "--invite needs --domain, or --groups and --labels",
        marks=pytest.mark.mpspdz("rep4-ring"),
    ),
    ("weights --epsilon 1 --security rep4-ring --invite d", r"--invite and --clients .* go together"),
    (f"{INVITE} 3 --records r", "Give either --records"),
    (f"{INVITE} 3 {DECLARED} --input-path replicated", "--invite has clients send during it"),
    (
        "weights --records good.csv --epsilon 1 --input-path replicated --security rep4-ring "
        "--noise distributed",
        "joint noise only",
    ),
    (
        "weights --add there --epsilon 1",
        "--epsilon is for a new run, and --add for what earlier runs revealed",
    ),
    ("weights --add there", "No such file"),
    (f"{INVITE} 3 {DECLARED} --hosts hosts.toml", "need a client_port of every host in hosts.toml; host h0"),
    ("hosts.setup --party 0", "--party, --pin and --lost are for one host"),
    ("weights --epsilon 1 --hosts hosts.toml --security rep4-ring --out there", "there exists already"),
    ("hosts.setup --directory host", "say by --party which party's"),
    ("hosts.setup --policy nothing.toml", r"Cannot read nothing\.toml"),
    ("hosts.setup --policy nothing.toml --security ring", "--security is for the usual policy; leave it out"),
    ("hosts.setup --security rign", "There is no model 'rign'"),
    ("hosts.policy --directory nowhere", "There is no directory nowhere"),
    ("verify there", r"there has no signatures\.json: a run on hosts"),
    (f"verify {LONG}", f"{TOO_LONG}results"),
    (f"task --file {LONG}", f"{TOO_LONG}file"),
    (f"keys --directory {LONG}", f"{TOO_LONG}directory"),
    (f"thresholds --curves {LONG}", f"{TOO_LONG}curves"),
    (f"hosts.policy --directory {LONG}", f"{TOO_LONG}directory"),
    ("verify one two", "'two' belongs to no option of verify"),
    # Noise.
    (f"weights {RUN} --noise own-cauchy", "--noise must be joint, distributed or distributed-gaussian"),
    (
        "weights --records good.csv --noise distributed --noise-family signed --epsilon 1",
        "--noise-family signed is of joint noise, and distributed noise has no family; leave out",
    ),
    ("weights --records good.csv --noise distributed --epsilon 0.00001", "would need a table up to"),
    (f"weights {RUN} --noise distributed-gaussian --delta 1e-60", "No noise fits --epsilon 1 and"),
    ("count --noise distributed --plan 100 --groups 2 --epsilon 1", "count has no option --noise"),
    # Clients as the privacy unit, and their cap.
    (CLIENT, "--privacy-unit client needs to know how much of a client counts"),
    (f"weights {RUN} --cap 3", "say --privacy-unit client"),
    (
        f"{CLIENT} --cap 101 --max-count 100",
        "A cap of 101 is above the 100 records that a client has at most",
    ),
    (f"weights {RUN} --neighboring-relation zero_out_one", "say --privacy-unit client"),
    (f"{CLIENT} --cap 3 --neighboring-relation replace_one", "client is under zero_out_one, not replace_one"),
    (f"{CLIENT} --cap 3 --input-form product", "Input form product keeps no client to a cap"),
    # Before anything is read.
    ("weights --records nowhere.csv --epsilon 1 --input-form slots --security mpyc", OF_SLOTS),
    (
        "confusion --records nowhere.csv --epsilon 1 --input-form slots --security mpyc "
        "--neighboring-relation add_or_remove_one",
        OF_SLOTS,
    ),
    (f"{PLAN} 9 --groups 2 --input-form slots", OF_SLOTS),
    (f"weights {RUN} --input-form slots", OF_SLOTS),
    (
        f"weights {INFERRED} good.csv --privacy-unit client --domain capped.json --cap 3",
        "The domain file says how much",
    ),
    (f"task new.json --cap auto {DECLARED}", "The cap has to be a number here: choose it by"),
    (f"{TRAIN} --with weights --privacy-unit client --cap auto", "Only a release on --records of all"),
    (f"{TRAIN} --with weights --privacy-unit client --cap 0", "1 to 1000, or weight-one; got '0'"),
    (f"{CLIENT} --cap 0", "or weight-one, or, with --records, auto; got '0'"),
    (f"task new.json {DECLARED} --range 0,1", "--range is for performance values"),
    (f"task new.json {DECLARED} --steps 5", "--steps is for performance values"),
    (f"{AUTO} --cap-epsilon 20", "--cap-epsilon 20 leaves nothing of --epsilon 20"),
    (f"{AUTO} --max-count 1", "Client 'c0' has 2 records, over the declared maximum of 1"),
    (f"{AUTO} --out there", "there-cap exists already; name another directory"),
    (f"{AUTO} --delta 2^-124", "No noise fits"),
    (f"{CLIENT} --cap 3 --cap-epsilon 1", "is for --cap auto; give both, or neither"),
    (f"{CAP} --epsilon 1", "--release-epsilon is missing"),
    (f"{ONE_CAP} --release counts", r"and --counts \(how many; 1 for one sum\) go together"),
    (f"{ONE_CAP} --variant records", "--variant goes with --release thresholds"),
    (f"{ONE_CAP} --release thresholds --variant records", "mpyc cannot do this"),
    (f"{ONE_CAP} --domain capped.json", "there is no cap to choose"),
    (f"{CAP} --epsilon 1 --release-epsilon 1e-30", "--release-epsilon 1e-30 is too small"),
    (
        f"task new.json {DECLARED} --for-tasks cap --cap 5 --parties a,b --until 2999-01-01",
        "there is no cap to choose",
    ),
    # Other releases.
    (f"{CONFUSION} scored.csv", "has no column prediction"),
    (
        f"{CONFUSION} scored.csv --threshold 0.5 --input-form product "
        "--neighboring-relation add_or_remove_one",
        "shows how many records there are",
    ),
    ("confusion --epsilon 1 --security mpyc --shares . --threshold 0.5", "leave out --threshold"),
    (f"{CONFUSION} scored.csv --threshold 0.5 --positive-label maybe", "'maybe' is not declared"),
    (f"{CURVES} score.csv", "row 5: score '1.5' is not a number from 0 to 1"),
    (
        "thresholds --epsilon 1 --security mpyc --records scored.csv --domain three-labels.json",
        "score_",
    ),
    (f"{CURVES} scored.csv --constraint parity", "--constraint must be equalized_odds, equal_opportunity,"),
    (f"{CURVES} scored.csv --input-form product", "--input-form must be split"),
    (f"{CURVES} scored.csv --variant records", "pi_roc_records uses features that only MP-SPDZ has"),
    ("thresholds --curves there --epsilon 2", "--epsilon is for a new run"),
    (f"count {RUN} --error-from 5000 --error-to 100", "--error-from 5000 is above --error-to 100"),
    (
        f"count {RUN} --error-from 3 --error-to 10",
        "--epsilon 1 is not enough: a relative error of 0.1 from 3",
    ),
    ("count --records good.csv --epsilon 1 --security spdz2k", "pi_count is not linear in its plain shares"),
    (
        "count --records good.csv --epsilon 1 --security rep4-ring",
        "use --input-path replicated, or a passive",
    ),
    (
        "gap --records values.csv --epsilon 1 --security mpyc --groups a,b --range 0,0.6",
        "row 2: value '16/20' is not a number or a fraction from 0 to 0.6",
    ),
    ("gap --records values.csv --epsilon 1 --security mpyc --groups a,b", "by --groups and --range"),
    (f"{TRAIN} --out new", r"good\.csv has no column age"),
    (f"{TRAIN} --weights-epsilon 1 --out new", "is for --with weights; give both, or neither"),
    (f"{TRAIN} --with weights --weights-epsilon 9 --out new", "leaves nothing of --epsilon 9"),
    (f"{TRAIN} --fairness equalized_odds --out new", "--fairness is for --with fairgrad"),
    (f"{TRAIN} --with weights,fairgrad --out new", "would weigh each record twice; choose one"),
    ("noise --epsilon 1", "--n is missing"),
    ("noise --n 5 --epsilon 1 --delta 2^-200", "No noise fits"),
    # What clients and parties do by themselves.
    ("share --records good.csv --out new", "--task is missing"),
    ("share --task task.json --records no-group.csv --out new", "has no column group"),
    ("share --task task.json --records good.csv", "--out is missing"),
    ("task new.json --groups a,b --labels 0,1", "A task needs"),
    (
        f"task new.json {DECLARED} --parties a,b --until 2999-01-01 --security spdz2k "
        "--input-path replicated",
        "ps-rep-ring or rep4-ring",
    ),
    (
        "aggregate --task task.json --party 0 --keys keys --shares nowhere --uploads lists --out new",
        "no sealing keys",
    ),
    ("send --records good.csv --invitation domain.json", "is not an invitation of this version"),
    # Plans, audits, the quickstart, ledgers.
    (f"{PLAN} 9", r"--groups is missing; give it a value, for example --groups 2\."),
    (f"{PLAN} many --groups 2", "--plan must be how many clients there would be"),
    (f"{PLAN} 9,network=fast --groups 2", "network= must be lan, wan, none"),
    (f"{PLAN} 9 --records good.csv", "or give a number of clients, and no records"),
    (f"{PLAN} 9 --groups 2 --chain monthly", "--plan runs nothing: leave out --chain"),
    (f"{PLAN} file", "--plan file is of the clients of --records: give both"),
    (f"{PLAN} file --records good.csv --groups 2", "--plan file replaces --groups;"),
    (f"{PLAN} 9 --groups 2 --hosts h.toml", "--plan runs nothing: leave out --hosts"),
    ("audit --sampler default --epsilon 1e-9", r"epsilon per unit must be between 10\^-7 and 20, not 1e-09"),
    ("audit --sampler default --release weights", "Audit either a --sampler or a --release"),
    ("audit --sampler default --groups 2", "--groups does not go with --sampler"),
    ("audit --release weights --thresholds 11", "--thresholds does not go with --release weights"),
    ("audit --release weights --epsilon 1e-8", "No noise fits --epsilon 1e-8"),
    ("audit --epsilon 1", "--epsilon does not go with the reference set"),
    (
        "audit --release count --noise distributed --security ring",
        "pi_count has no place for distributed noise",
    ),
    ("audit --release weights --security ring", "--security does not go with --release weights"),
    ("quickstart --security nonsense --out new", "There is no model 'nonsense'"),
    ("quickstart --security mpyc --out there", "there exists already"),
    ("ledger --population loans", "has no population 'loans'"),
    ("ledger --budget 3", "--population"),
    # Benchmarks and studies.
    ("bench.run", "--experiment is missing"),
    ("bench.run mine.toml", r"unknown security 'mpcy' \(did you mean mpyc\?\)"),
    ("bench.run scael", r"There is no suite 'scael' \(did you mean scale\?\)"),
    ("bench.run scale --security ring,other", "--security"),
    ("bench.run --resume nowhere", "nowhere"),
    ("bench.tampering --security mpyc", "between machines of MP-SPDZ, and mpyc is none"),
    ("bench.timing --security mpyc", "between machines of MP-SPDZ, and mpyc is none"),
    ("bench.tampering --security rep4-ring --parties 3", "takes 4 parties, not 3"),
    ("bench.tampering --parties 17", "--parties"),
    ("bench.run --out one --resume two", "--resume"),
    ("bench.run scale --args 3", "--args goes with a program's .mpc alone"),
    ("bench.run gone.mpc", r"There is no program gone\.mpc"),
    ("bench.run my.mpc --against other/my.mpc", "--against names a program beside my.mpc"),
    ("bench.run my.mpc --network wam", "network: --network must be lan"),
    ("bench.run my.mpc --quick", "Suite program has nothing to run with --quick"),
    ("bench.validate --results there", "There are no measured runs in"),
    ("reproduce gaps --data absent --out found", "absent has no recording"),
    ("reproduce utility --quick --repetitions 1 --out found", "--repetitions"),
    ("reproduce capping --clients 10 --out found", "--clients must be a whole number from 100 to 1000000"),
    ("reproduce capping --clients 100 --movielens . --out found", "has neither ratings.dat and users.dat"),
    ("reproduce training --data wagepan --ads . --out found", "has no U0001-RT.csv or its like"),
    ("reproduce training --out a --resume b", "--out is for a new directory, --resume for an earlier one"),
]
CASES = [
    *((f"weights {INFERRED} {options}", message) for options, message in RECORDS),
    *((f"weights --records good.csv --epsilon 1 {options}", message) for options, message in MODELS),
    *COMMANDS,
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with all these files; no test may change it."""
    made = tmp_path / "directory"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "latin-1.csv").write_bytes((HEADER + "c0,é,0\nc1,b,1\n").encode("latin-1"))
    (made / "no.parquet").write_text(GOOD)
    for name in ("directory.csv", "there", "there-cap"):
        (made / name).mkdir()
    (made / "loop.csv").symlink_to("loop.csv")  # which root cannot read, either
    return made


def check_refused(done: subprocess.CompletedProcess[str], message: str, directory: Path) -> None:
    """Check that a command ended with one or two sentences that say so, and did nothing."""
    steps = r"(?:[a-z][^\n]*: \d+\.\d\d s\n|Security model: [^\n]*\n)*"
    complaint = re.fullmatch(rf"{steps}Error: ([^\n]*)\n", done.stderr)
    assert done.returncode in CODES and done.stdout == ""
    assert complaint is not None, done.stderr
    assert re.search(message, complaint[1]), complaint[1]
    assert (
        complaint[1].endswith(".")
        and len(re.findall(r"[.] [A-Z]", complaint[1])) <= 1
        and len(complaint[1]) < 300
    )
    assert files_below(directory) == {*FILES, *OTHERS} and processes_below(directory) == {}
    assert not default_path().exists()  # nothing is charged


@pytest.mark.parametrize(("arguments", "message"), CASES)
def test_a_mistake_is_told_before_anything_is_done(arguments: str, message: str, directory: Path) -> None:
    check_refused(call(*shlex.split(arguments), cwd=directory), message, directory)


def test_a_virtual_machine_that_is_not_built(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "compile.py").touch()
    (tmp_path / "CHANGELOG.md").write_text("## 0.4.3\n")
    arguments = ("weights", "--records", "good.csv", "--epsilon", "1", "--security", "semi2k")
    done = command(*arguments, cwd=directory, environment={"MP_SPDZ_HOME": str(tmp_path)})
    check_refused(done, rf"MP-SPDZ at {re.escape(str(tmp_path))} has no semi2k-party\.x", directory)


def test_help_and_version_are_under_our_name(directory: Path) -> None:
    said = call("--help", "weights", cwd=directory).stdout
    assert said.startswith("Usage: ./inv weights [options]\n\nCompute DP sample weights")
    assert "--epsilon=… " in said and "STRING" not in said
    assert call("--list", cwd=directory).stdout.startswith("Commands; `./inv COMMAND --help` explains")
    assert re.fullmatch(r"FairShares \d\S+\n", call("--version", cwd=directory).stdout)


def test_a_reader_who_leaves_early_gets_no_traceback(directory: Path) -> None:
    process = start("--list", cwd=directory)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 1
    process.stderr.close()
