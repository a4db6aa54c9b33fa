"""Whoever runs a Dask cluster has the process that talks to it run code, which finds nothing but its uploads.

The same code without the sandbox finds the rest: no test passes because what it looks for is not there.
"""

import json
import os
import re
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.sandbox import Protection, missing
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import ShareError
from fairshares.harness.pipeline import cluster, cluster_client
from fairshares.harness.pipeline.cluster import on_cluster, unprotected
from fairshares.harness.pipeline.cluster_client import FAILED, HEAD, OPENED, READY
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.keys import SIGNING
from tests.conftest import PROJECT
from tests.harness.engines.test_sandbox import PROCESS_KINDS, SECURED, Surroundings, text_of
from tests.support.envelopes import made_task, opener, upload
from tests.support.running import until
from tests.support.sandboxes import leave_out_sandbox
from tests.support.ssh import answers

HOST = "127.0.0.1"
# Has a worker answer by an error that runs code where it is unpickled, which does harm at the owner only.
HOSTILE = """
import pickle

from distributed import core, protocol, worker
from fairshares.harness.uploads import counting


class Answer:
    def __reduce__(self):
        return exec, ({code!r}, {{}})


def packed(opener, envelopes, apart):
    raise ValueError


def error_message(error, status="error"):
    return core.error_message(error, status) | {{"exception": protocol.to_serialize(pickle.dumps(Answer()))}}


counting.packed, worker.error_message = packed, error_message
"""
REPORTING = """
import sys
main = sys.modules["__main__"]
if hasattr(main, "Pipes"):
    import contextlib, gc, io
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        exec({intruder!r}, {{"__name__": "intruder"}})
    answers = printed.getvalue().splitlines()
    done = [str(place) for place, line in enumerate(answers) if line.endswith(": done")]
    pipes = next(one for one in gc.get_objects() if isinstance(one, main.Pipes))
    pipes.send(main.FAILED, f"{{len(answers)}} tried, done {{' '.join(done)}}.".encode())
"""


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with ExitStack() as stack:
        yield Surroundings(tmp_path / "owner", stack)


@contextmanager
def hostile_cluster(directory: Path, code: str) -> Iterator[str]:
    """Yield the address of a cluster whose worker has its callers run code."""
    (directory / "hostile.py").write_text(HOSTILE.format(code=code))
    with free_ports(1) as (port,), ExitStack() as stack:
        where = ["--host", HOST, "--port", str(port), "--dashboard-address", f"{HOST}:0"]
        work = [f"tcp://{HOST}:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        work += ["--preload", str(directory / "hostile.py")]
        for name, words in (("dask_scheduler", where), ("dask_worker", work)):
            started = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{name}", *words],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(PROJECT)},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(started.wait)
            stack.callback(started.kill)
        until(lambda: answers(HOST, port))
        yield f"tcp://{HOST}:{port}"


@pytest.mark.skipif(bool(missing()), reason=f"this kernel lacks {missing()}")
@SECURED
def test_what_a_cluster_has_unpickled_finds_that_aggregations_input_alone(
    secured: bool, around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = made_task(tmp_path)
    upload(task, [1, 0, 0, 0], tmp_path / "shares")
    own = opener(task, 0, tmp_path)
    signing = next(tmp_path.rglob(SIGNING))
    monkeypatch.setenv("OWNERS_SECRET", "secret")
    forbidden = [
        *around.forbidden,
        ("read", str(signing)),
        ("list", str(tmp_path / "shares" / "party-0")),
        ("make", str(tmp_path / "new")),
        *((kind, "parent") for kind in PROCESS_KINDS),
        around.moved,
    ]
    tried = [("read", "/proc/cpuinfo"), ("make", "new"), ("read", "new"), *forbidden]
    if not secured:
        leave_out_sandbox(tmp_path, monkeypatch)
        monkeypatch.setattr(cluster, "PROJECT", tmp_path / "project")
    code = REPORTING.format(intruder=text_of(tried))
    with hostile_cluster(tmp_path, code) as address, pytest.raises(ShareError) as error:
        UploadCount(own).add(tmp_path / "shares" / "party-0", opened_by=on_cluster(address))
    found = re.search(r"lost its workers: (\d+) tried, done ([\d ]*)\.;", str(error.value))
    assert found is not None, str(error.value)
    done = [tried[int(place)] for place in found[2].split()]
    assert int(found[1]) == len(tried) and done[:3] == tried[:3]
    if secured:
        assert done[3:] == []
    else:
        may_lack = ("fast-open", "multipath")  # which some systems refuse anyway
        assert {attempt for attempt in {*forbidden} - {*done} if attempt[0] not in may_lack} == set()


def test_its_process_gets_no_variables_of_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those by which the owner reaches an object store."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "5s")
    code = "import os; print(sorted(os.environ), flush=True)"
    found = json.loads(said_by(code, tmp_path, monkeypatch).replace("'", '"'))
    assert "AWS_SECRET_ACCESS_KEY" not in found
    assert {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "PATH", "PYTHONPATH", "TMPDIR"} <= {*found}


def said_by(code: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a program prints that stands in for the process that talks to a cluster."""
    stand_in(code, directory, monkeypatch)
    with cluster._client("tcp://cluster") as client:
        return client._pipe(client._process.stdout).read().decode()


def stand_in(code: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a program run in the place of the process that talks to a cluster."""
    (directory / "stand_in.py").write_text(textwrap.dedent(code))
    monkeypatch.setattr(cluster_client, "__name__", "stand_in")
    monkeypatch.setattr(cluster, "PROJECT", directory)


def message(kind: int, content: bytes, length: int | None = None) -> bytes:
    return HEAD.pack(kind, len(content) if length is None else length) + content


TWO = message(READY, b'{"threads": 2}')


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "its client has ended"),
        (TWO[:-1], "its client has ended"),
        (message(READY, b'{"threads": -2}'), "does not say how many threads"),
        (message(READY, b'{"threads": 100000}'), "does not say how many threads"),
        (message(READY, b'{"threads": 2, "more": 1}'), "does not say how many threads"),
        (message(READY, b"2"), "does not say how many threads"),
        (message(READY, b"[" * 1000), "does not say how many threads"),
        (message(READY, b"2", 1 << 60), "says what does not belong there"),
        (message(OPENED, b"2"), "says what does not belong there"),
        (message(FAILED, b"\x1b[31mred \xff" + b"x" * 10**6), r"lost its workers:  \[31mred .x{1000}x*; see"),
        (TWO + message(OPENED, b"x" * 100), "What a worker of the cluster returned"),
        (TWO + message(OPENED, b"", 1 << 62), "says what does not belong there"),
        (TWO + TWO, "says what does not belong there"),
        (TWO + struct.pack(">B", OPENED), "its client has ended"),
    ],
)
def test_what_its_process_says_is_bounded_and_checked(
    answer: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whoever runs the cluster may run it."""
    task = made_task(tmp_path)
    upload(task, [1, 0, 0, 0], tmp_path / "shares")
    code = f"import sys; sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); sys.stdin.read()"
    stand_in(code if answer else "pass", tmp_path, monkeypatch)
    if (len(answer) and not answer.startswith(TWO)) or answer.endswith(struct.pack(">B", OPENED)):
        stand_in(code.replace("; sys.stdin.read()", ""), tmp_path, monkeypatch)
    with pytest.raises(ShareError, match=said) as error:
        UploadCount(opener(task, 0, tmp_path)).add(
            tmp_path / "shares" / "party-0", opened_by=on_cluster("tcp://c")
        )
    assert str(error.value).isprintable() and len(str(error.value)) < 2000


def test_what_its_process_leaves_running_ends_with_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    import os, time
    child = os.fork()
    if child == 0:
        os.close(1)
        time.sleep(600)
    print(child, flush=True)
    """
    child = int(said_by(code, tmp_path, monkeypatch))
    until(lambda: not _runs(child))
    assert not [*Path(tmp_path).glob(".fairshares-*")]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "address", ["", "ws://10.0.0.1:8786", "file:///etc/passwd", "tcp://", "tcp://a:b", "a:0x1"]
)
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(
        ShareError, match=r"is no address of a scheduler; name one such as tcp://10\.0\.0\.1:8786"
    ):
        on_cluster(address)
    for sound in ("10.0.0.1:8786", "tls://[::1]:8786", "tcp://scheduler"):
        on_cluster(sound)


def test_what_cannot_be_had_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "missing", lambda: ())
    assert unprotected() is None
    monkeypatch.setattr(cluster, "missing", lambda: (Protection.FILES, Protection.SIGNALS))
    assert unprotected() == (
        "This kernel cannot shut off the process that talks to the cluster: whoever runs the cluster can "
        "read and write its owner's other files, send signals to its owner's other processes. Use a cluster "
        "of your own, or a newer kernel."
    )
