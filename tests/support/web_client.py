"""The client in TypeScript, `web/`, asked by tests in Python: its bridge answers requests in JSON."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.uploads.task import Task
from tests.conftest import PROJECT

WEB = PROJECT / "web"
_ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"


def check_installed() -> None:
    """Skip the test where there is no Node, or where `npm ci` has not been run in `web/`."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    if not _ESBUILD.exists():
        pytest.skip("web/node_modules is not there: `npm ci` in web/ installs it")


class Refused(Exception):
    """The client refused a request; `kind` is its error's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WebClient:
    """A process of Node, with the library that `web/` has now."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, what: str, task: Task | bytes, **request: Any) -> Any:
        """Return the answer to one request, or raise Refused. Args: task: or the bytes of its file."""
        file = task.text if isinstance(task, Task) else task
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, "task": file.hex(), **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the bridge ended: its last words are on standard error"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["answer"]

    def seal(self, task: Task, **request: Any) -> list[tuple[str, list[bytes]]]:
        """Return each upload's identity and envelopes; `row` or `records`, and `times`, say which."""
        uploads = self.ask("seal", task, **request)
        return [(one["identity"], [bytes.fromhex(text) for text in one["envelopes"]]) for one in uploads]


def bundled(name: str, directory: Path, *options: str) -> Path:
    """Bundle a file of `web/test/` with all that it imports; return the bundle, or skip as `check_installed`.

    Args:
        name: The file's name.
        directory: Where the bundle goes.
        options: Further options of esbuild.
    """
    check_installed()
    bundle = (directory / name).with_suffix(".mjs")
    usual = ["--bundle", "--format=esm", "--target=es2022", "--log-level=warning", f"--outfile={bundle}"]
    subprocess.run([_ESBUILD, WEB / "test" / name, *usual, *options], check=True, timeout=600)
    return bundle


def built_page(directory: Path) -> Path:
    """Build the page's script and style as `npm run build` does; return their directory, or skip."""
    check_installed()
    scripts = json.loads((WEB / "package.json").read_text())["scripts"]["build"].split("&&")
    (command,) = [script.split() for script in scripts if "page/main.ts" in script]
    options = [option for option in command[1:] if not option.startswith("--outdir")]
    usual = ["--log-level=warning", f"--outdir={directory}"]
    subprocess.run([_ESBUILD, *options, *usual], cwd=WEB, check=True, timeout=600)
    (directory / "LICENSES.txt").write_text("Licenses stand here.\n")
    return directory


@contextmanager
def web_client(directory: Path, **environment: str) -> Iterator[WebClient]:
    """Bundle the bridge as `web/` has it now, run it, and yield what asks it.

    Args:
        directory: Where the bundle goes.
        environment: Further variables of the process.
    """
    bridge = bundled("bridge.ts", directory, "--platform=node")
    process = subprocess.Popen(
        ["node", bridge],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    with process:
        try:
            yield WebClient(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
