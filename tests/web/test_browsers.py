"""Real browsers seal what the project opens."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

from fairshares.harness.uploads.opening import OpenedEnvelope, open_envelope
from fairshares.harness.uploads.task import Task
from tests.support.envelopes import made_task, opener, revealed
from tests.support.web_client import bundled

BROWSERS = {
    "chromium": ("--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir={profile}"),
    "firefox-esr": ("--headless", "--no-remote", "--profile", "{profile}"),
}
PAGE = b"<!doctype html><title>Seals</title><script type=module src=/page.mjs></script>"
WAIT_S = 600.0  # for a browser that does nothing; it takes a few seconds


@contextmanager
def serving_page(script: bytes, tasks: dict[str, Task]) -> Iterator[tuple[str, "Queue[Any]"]]:
    """Serve a page on loopback, with its script and its tasks; yield its address, and what the page posts."""
    posted: Queue[Any] = Queue()
    files = {"/": (PAGE, "text/html"), "/page.mjs": (script, "text/javascript")}
    files |= {f"/{name}.json": (task.text, "application/json") for name, task in tasks.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, kind = files.get(self.path, (b"", "text/plain"))
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing of a browser that leaves, or that speaks TLS."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", posted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def posted_by(browser: str, address: str, posted: "Queue[Any]", place: Path) -> Any:
    """Open a page in a browser of its own profile and home, and return what the page posts."""
    profile = place / "profile"
    profile.mkdir()
    options = [option.format(profile=profile) for option in BROWSERS[browser]]
    process = subprocess.Popen(
        [browser, *options, address],
        env={**os.environ, "HOME": str(place)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return posted.get(timeout=WAIT_S)
    except Empty:
        pytest.fail(f"{browser} posted nothing")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_browser_seals_what_the_project_opens(browser: str, tmp_path: Path) -> None:
    script = bundled("page.ts", tmp_path)
    if shutil.which(browser) is None:
        pytest.skip(f"there is no {browser}")
    tasks = {name: made_task(tmp_path / name, hybrid=name == "hybrid") for name in ("x25519", "hybrid")}
    with serving_page(script.read_bytes(), tasks) as (address, posted):
        made = posted_by(browser, address, posted, tmp_path)
    assert "error" not in made, made
    for name, task in tasks.items():
        parts = []
        for party, envelope in enumerate(made[name]["envelopes"]):
            keys = opener(task, party, tmp_path / name).keys
            answer = open_envelope(task, party, keys, bytes.fromhex(envelope))
            assert isinstance(answer, OpenedEnvelope), answer
            parts.append(answer.shares)
        assert revealed(task, parts) == [0, 1, 2, 3]
        assert task.name in made[name]["sentences"][0]
        ends = {(result["outcome"], result["answer"]) for result in made[name]["results"]}
        assert ends == {("unknown", "the connection broke")}
