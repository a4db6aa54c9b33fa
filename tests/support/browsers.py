"""Real browsers without a screen, as their makers have them driven.

DevTools drive Chromium, and WebDriver BiDi drives Firefox. Texts of JavaScript are evaluated in
the page, whatever its own policy allows. Keys come as from a keyboard.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import until
from tests.support.web_sockets import WebSocket

BROWSERS = ("chromium", "firefox-esr")
WAIT_S = 600.0  # for what takes a second on a machine that is idle
KEYS = {
    "Tab": ("\ue004", 9),
    "Enter": ("\ue006", 13),
    " ": (" ", 32),
    "ArrowDown": ("\ue015", 40),
}


class Browser(ABC):
    """A tab of a browser, in a profile of its own. Attributes: downloads: where it saves files."""

    def __init__(self, socket: WebSocket, downloads: Path) -> None:
        self.downloads = downloads
        self._socket = socket
        self._number = 0

    def ask(self, method: str, **parameters: Any) -> Any:
        """Return the browser's answer to a command of its protocol."""
        self._number += 1
        number = self._number
        self._socket.send({"id": number, "method": method, "params": parameters, **self._more()})
        while True:
            answer = self._socket.next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _more(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def open(self, address: str) -> None:
        """Open an address, and wait until it is loaded."""

    @abstractmethod
    def evaluate(self, expression: str) -> Any:
        """Return the value of JavaScript's expression, or of what it promises, as JSON has it."""

    @contextmanager
    @abstractmethod
    def another_tab(self) -> Iterator["Browser"]:
        """Open another tab of this browser's user; close it after the block."""

    @abstractmethod
    def press(self, key: str) -> None:
        """Press a key of `KEYS`, or a character's."""

    @abstractmethod
    def resize(self, width: int, height: int = 800) -> None:
        """Give the page so many CSS pixels."""

    @abstractmethod
    def _preload(self, function: str) -> str:
        """Have a function without arguments called in each new page, first of all; return what ends this."""

    @abstractmethod
    def _end_preload(self, script: str) -> None: ...

    @contextmanager
    def before_each_page(self, function: str) -> Iterator[None]:
        """In the block, call a function of JavaScript, without arguments, first in each new page."""
        script = self._preload(function)
        try:
            yield
        finally:
            self._end_preload(script)

    @abstractmethod
    def read_aloud(self, role: str, name: str | None = None) -> int:
        """Return how many parts a reader of screens finds, by the browser's own tree of accessible objects.

        Args:
            role: The role of WAI-ARIA, such as `heading`.
            name: The part's accessible name; None for parts of any name.
        """

    @abstractmethod
    def picture(self, file: Path) -> None:
        """Write a picture of the whole page."""

    def text(self) -> str:
        """Return what a reader sees."""
        seen: str = self.evaluate("document.body.innerText")
        return seen

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        pytest.fail(f"never: {expression}; the page says {self.text()}")

    def wait_for_text(self, text: str) -> None:
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})")

    def click(self, selector: str) -> None:
        """Click what a selector finds, once it is there."""
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def click_text(self, text: str) -> None:
        """Click the button with a text, once it is there."""
        button = f"[...document.querySelectorAll('button')].find((b) => b.textContent === {json.dumps(text)})"
        self.wait_for(f"{button} !== undefined")
        self.evaluate(f"{button}.click()")

    def type(self, text: str) -> None:
        for sign in text:
            self.press(sign)


class Chromium(Browser):
    """Chromium, by its DevTools protocol."""

    def __init__(self, socket: WebSocket, downloads: Path) -> None:
        super().__init__(socket, downloads)
        self._session = ""
        self.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        (page,) = [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.ask("Page.enable")

    def _more(self) -> dict[str, str]:
        return {"sessionId": self._session} if self._session else {}

    def open(self, address: str) -> None:
        self.ask("Page.navigate", url="about:blank")  # or another fragment alone would load nothing
        self.wait_for("location.href === 'about:blank'")
        self.ask("Page.navigate", url=address)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        try:
            answer = self.ask(
                "Runtime.evaluate",
                expression=f"(async () => JSON.stringify(await ({expression})))()",
                awaitPromise=True,
                returnByValue=True,
            )
        except AssertionError as error:
            if "navigated" in str(error) or "context" in str(error):
                return None
            raise
        assert "exceptionDetails" not in answer, answer
        return json.loads(answer["result"].get("value") or "null")

    @contextmanager
    def another_tab(self) -> Iterator[Browser]:
        tab = copy(self)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        tab._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab.ask("Page.enable")
        try:
            yield tab
        finally:
            self.ask("Target.closeTarget", targetId=target)

    def press(self, key: str) -> None:
        code = KEYS.get(key, (key, ord(key.upper()) if len(key) == 1 else 0))[1]
        text = {"Enter": "\r", "Tab": ""}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def resize(self, width: int, height: int = 800) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)

    def _preload(self, function: str) -> str:
        answer = self.ask("Page.addScriptToEvaluateOnNewDocument", source=f"({function})()")
        identifier: str = answer["identifier"]
        return identifier

    def _end_preload(self, script: str) -> None:
        self.ask("Page.removeScriptToEvaluateOnNewDocument", identifier=script)

    def read_aloud(self, role: str, name: str | None = None) -> int:
        found = 0
        for node in self.ask("Accessibility.getFullAXTree")["nodes"]:
            if not node["ignored"] and node["role"]["value"] == role:
                found += name is None or node.get("name", {}).get("value") == name
        return found

    def picture(self, file: Path) -> None:
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(answer["data"]))


class Firefox(Browser):
    """Firefox, by WebDriver BiDi."""

    def __init__(self, socket: WebSocket, downloads: Path) -> None:
        super().__init__(socket, downloads)
        self.ask("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        window = self.ask("browsingContext.create", type="window")  # the first one never gets the focus
        self._context = window["context"]

    def open(self, address: str) -> None:
        for url in ("about:blank", address):
            self.ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        answer = self.ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"].get("value") or "null")

    @contextmanager
    def another_tab(self) -> Iterator[Browser]:
        tab = copy(self)
        tab._context = self.ask("browsingContext.create", type="tab")["context"]
        try:
            yield tab
        finally:
            self.ask("browsingContext.close", context=tab._context)

    def press(self, key: str) -> None:
        value = KEYS.get(key, (key, 0))[0]
        actions = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.ask("input.performActions", context=self._context, actions=[keyboard])

    def resize(self, width: int, height: int = 800) -> None:
        size = {"width": width, "height": height}
        self.ask("browsingContext.setViewport", context=self._context, viewport=size)

    def _preload(self, function: str) -> str:
        script: str = self.ask("script.addPreloadScript", functionDeclaration=function)["script"]
        return script

    def _end_preload(self, script: str) -> None:
        self.ask("script.removePreloadScript", script=script)

    def read_aloud(self, role: str, name: str | None = None) -> int:
        value = {"role": role} if name is None else {"role": role, "name": name}
        locator = {"type": "accessibility", "value": value}
        answer = self.ask("browsingContext.locateNodes", context=self._context, locator=locator)
        return len(answer["nodes"])

    def picture(self, file: Path) -> None:
        answer = self.ask("browsingContext.captureScreenshot", context=self._context, origin="document")
        file.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def browsing(name: str, place: Path, *, dark: bool = False, languages: str = "en") -> Iterator[Browser]:
    """Run a browser with a new profile, or skip where it is not installed.

    Args:
        name: One of `BROWSERS`.
        place: An empty directory for its profile and its home.
        dark: Whether its user prefers dark pages.
        languages: The languages of its user.
    """
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    profile = place / "profile"
    profile.mkdir(parents=True)
    downloads = place / "downloads"
    downloads.mkdir()
    is_chromium = name == "chromium"
    if is_chromium:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        options += ["--ignore-certificate-errors", f"--lang={languages}", f"--accept-lang={languages}"]
        options += ["--blink-settings=preferredColorScheme=0"] if dark else []
    else:
        options = ["--headless", "--no-remote", "--profile", str(profile)]
        settings = {
            "intl.accept_languages": languages,
            "layout.css.prefers-color-scheme.content-override": 0 if dark else 1,
            "datareporting.policy.dataSubmissionEnabled": False,
            "browser.download.folderList": 2,
            "browser.download.dir": str(downloads),
            "browser.download.alwaysOpenPanel": False,  # which would take the focus
        }
        lines = [f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in settings.items()]
        (profile / "user.js").write_text("".join(lines))
    with (place / "said").open("wb") as said:
        process = subprocess.Popen(
            [name, *options, "--remote-debugging-port=0", "about:blank"],
            env={**os.environ, "HOME": str(place)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    socket: WebSocket | None = None
    try:
        pattern = r"(?:DevTools|WebDriver BiDi) listening on (ws://\S+)"

        def listens() -> bool:
            assert process.poll() is None, (place / "said").read_text()
            return re.search(pattern, (place / "said").read_text()) is not None

        until(listens)
        found = re.search(pattern, (place / "said").read_text())
        assert found is not None
        socket = WebSocket(found[1] if is_chromium else f"{found[1]}/session", WAIT_S)
        yield Chromium(socket, downloads) if is_chromium else Firefox(socket, downloads)
    finally:
        if socket is not None:
            socket.close()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
