"""What all tests share: where the project is, and what cannot run here and why."""

import gc
import inspect
import os
import secrets
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from _pytest.unraisableexception import collect_unraisable
from hypothesis import HealthCheck, settings

from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.errors import SHELL, naming
from fairshares.harness.privacy.ledger.entries import default_path
from fairshares.harness.security_models import MODELS, get_model

PROJECT = Path(__file__).resolve().parents[1]

# No test and no process that it starts may come near the ledger of whoever runs the tests.
USERS_OWN = [default_path().parent, Path.home() / ".local" / "share" / "fairshares"]
os.environ["XDG_DATA_HOME"] = os.devnull  # until a test has a place of its own: no ledger can be made there
os.environ.pop("FAIRSHARES_LEDGER", None)

# No limits on time: the machine is shared, and the first example pays for imports. No database: what one
# run of the tests found is nothing that the next one depends on.
settings.register_profile(
    "fairshares", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("default", settings.get_profile("fairshares"), max_examples=30)
settings.load_profile("fairshares")

# What `./inv test` leaves to `./inv test --all`: entries with `tests`, `reason` and more.
EXHAUSTIVE: list[dict[str, Any]] = tomllib.loads((PROJECT / "tests" / "exhaustive.toml").read_text())["entry"]
# The files and directories whose tests take longest start first, in this order, so that short ones fill the
# end: a file's tests stay in one process.
FIRST = ("tests/programs/test_every_program", "tests/commands/", "tests/programs/", "tests/statistical/")

COLLECTED = pytest.StashKey[Counter[tuple[Path, str]]]()
UNMET = pytest.StashKey[set[str]]()  # names in the list of exhaustive tests that are no test's
BEGUN = pytest.StashKey[float]()  # when the first test did, on the monotonic clock
LEFT_OUT = pytest.StashKey[Counter[str]]()  # how many tests for each reason


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer a time after which no test begins, for `./inv check`."""
    parser.addoption(
        "--begin-within", type=float, metavar="SECONDS", help="skip tests that would begin later than this"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the test if the time within which tests begin is over.

    It counts from the first test, which always runs.
    """
    limit: float | None = item.config.option.begin_within
    if BEGUN not in item.config.stash:
        item.config.stash[BEGUN] = time.monotonic()
    elif limit is not None and time.monotonic() - item.config.stash[BEGUN] > limit:
        pytest.skip(f"{limit:g} s were over; `./inv check PATH --all` runs it")


def pytest_configure(config: pytest.Config) -> None:
    """Have properties tried by fewer examples in what a change waits for, and `--lf` run no other tests.

    Without a failure on record pytest would run all tests then.
    """
    if config.option.markexpr == "not exhaustive":
        settings.load_profile("default")
    if config.pluginmanager.has_plugin("cacheprovider"):
        config.option.last_failed_no_failures = "none"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count what was collected, before -k and -m take tests away; mark what is not for every run.

    Exhaustive tests are marked by the list of them; what MP-SPDZ is missing for is skipped.
    """
    collected = config.stash[COLLECTED] = Counter()
    items.sort(key=_turn)
    config.stash[UNMET] = mark_exhaustive(items, EXHAUSTIVE)
    for item in items:
        if isinstance(item, pytest.Function):
            # An inherited test counts where it is written and where it is collected.
            written = Path(inspect.getfile(inspect.unwrap(item.function)))
            collected.update((file, item.originalname) for file in {item.path, written})
    for item in items:
        for marker in item.iter_markers("mpspdz"):
            reason = _missing(marker.args)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


def _turn(item: pytest.Item) -> int:
    """Return when a test's file starts, by its place among the longest ones."""
    turns = [turn for turn, start in enumerate(FIRST) if item.nodeid.startswith(start)]
    return turns[0] if turns else len(FIRST)


def mark_exhaustive(items: Sequence[pytest.Item], entries: Sequence[dict[str, Any]]) -> set[str]:
    """Mark tests as the entries say; return what in them met none, of tests and of kept parameters."""
    by_name = {name: entry for entry in entries for name in entry["tests"]}
    met = set()
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        for name in (test, test.partition("::")[0], f"{test.rpartition('/')[0]}/"):
            if name not in by_name:
                continue
            met.add(name)
            keep = [one for one in by_name[name].get("keep", ()) if fnmatchcase(parameters, f"{one}]")]
            met.update(keep)
            if not keep:
                item.add_marker(pytest.mark.exhaustive(by_name[name]["reason"]))
            break
    return {*by_name, *(one for entry in entries for one in entry.get("keep", ()))} - met


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count exhaustive tests that do not run, by reason; what -k takes away has others among it.

    `--last-failed` takes whole files away, and reports no test of them.
    """
    markers = [item.get_closest_marker("exhaustive") for item in items]
    reasons = [marker.args[0] for marker in markers if marker is not None]
    if items and len(reasons) == len(items):
        items[0].config.stash[LEFT_OUT] = Counter(reasons)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what one of several processes left out: each of them collects all tests."""
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell the process that reports what this one left out.

    A check of a module whose tests are all left out does not fail.
    """
    left_out: Counter[str] = session.config.stash.get(LEFT_OUT, Counter())
    option = session.config.option
    in_a_check = option.begin_within is not None and not option.keyword
    if in_a_check and left_out and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what did not run, why, and how to run it."""
    left_out: Counter[str] = config.stash.get(LEFT_OUT, Counter())
    skipped = len(terminalreporter.stats.get("skipped", ()))
    terminalreporter.section("not run")
    for reason, count in left_out.most_common():
        terminalreporter.write_line(f"{count:5} left out: {reason}")
    if left_out:
        command = "./inv test" if config.option.begin_within is None else "./inv check PATH"
        terminalreporter.write_line(f"      Run them, too, with: {command} --all")
    if skipped:
        terminalreporter.write_line(f"{skipped:5} skipped: what each needs is said above.")
    if not left_out and not skipped:
        terminalreporter.write_line("      Nothing was left out.")


def _missing(models: tuple[str, ...]) -> str | None:
    """Return the engine's own reason why one of the models cannot run here, or None."""
    engine = MpSpdzEngine()
    for name in models or [model.name for model in MODELS.values() if model.engine == engine.name]:
        reason = engine.availability(get_model(name))
        if reason is not None:
            return reason
    return None


class Opened:
    """Whether sockets or processes were opened since one last asked."""

    def __init__(self) -> None:
        self._some = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in ("socket.__new__", "subprocess.Popen"):
            self._some = True

    def ask(self) -> bool:
        some, self._some = self._some, False
        return some


OPENED = Opened()  # an audit hook stays for good


def spare_the_user(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise before anything is opened or made where the user's own ledger is."""
    if event in ("open", "os.mkdir", "os.link", "sqlite3.connect"):
        for own in USERS_OWN:
            if str(own) in unquote(str(arguments[0])):
                raise AssertionError(f"a test would touch {own}")


sys.addaudithook(spare_the_user)
gc.disable()  # until all is collected: nothing is garbage while modules are imported


def pytest_collection_finish() -> None:
    """Have the collector look no more at what is there for good: it takes a thirtieth of the time then."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves a socket or process open, not the one in which the collector meets it."""
    yield
    if OPENED.ask():
        gc.collect()
        collect_unraisable(item.config)


@pytest.fixture(autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give each test, and what it starts, a place for a ledger; nothing is there yet."""
    place = tmp_path_factory.getbasetemp() / f"data-{secrets.token_hex(8)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(place))
        yield place


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's root."""
    return PROJECT


@pytest.fixture
def in_shell() -> Iterator[None]:
    """Have messages written for a shell, as in a command: for tests of parts that call no command."""
    with naming(SHELL):
        yield


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in a directory of its own and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
