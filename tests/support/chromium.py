"""A real browser without a window: Debian's Chromium, spoken to over a pipe (the DevTools protocol).

All calls block, with a patience: call them in a thread where the reactor has to answer meanwhile.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from axe_core_python.base import AXE_SCRIPT

PATIENCE_SECONDS = 60.0
_START = """
import fcntl, os, sys
here = [fcntl.fcntl(int(text), fcntl.F_DUPFD, 10) for text in sys.argv[1:3]]
os.dup2(here[0], 3)
os.dup2(here[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""It reads what it is asked from 3, and answers to 4."""
_BROKEN_WORDS = """(() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    for (const run of node.data.matchAll(/(?<!\\S)\\S{2,30}(?!\\S)/g)) {
      for (const word of run[0].matchAll(/[\\p{L}\\p{N}]+/gu)) {
        const range = document.createRange();
        range.setStart(node, run.index + word.index);
        range.setEnd(node, run.index + word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
        if (lines.size > 1) found.push(run[0]);
      }
    }
  }
  return found;
})()"""
"""Words of usual length that a line's end breaks."""


class BrowserFailed(Exception):
    """It did not do what it was asked for."""


class Chromium:
    """One browser with one page.

    :param folder: an empty one, for what it keeps.
    :ivar complaints: what it wrote to its console: errors of scripts, violations of the policy, what was not found.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert program is not None, "there is no Chromium: scripts/system-packages installs it"
        to_it, ours = os.pipe()
        theirs, from_it = os.pipe()
        arguments = [
            *("--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-first-run"),
            *("--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"),
            *("--disable-component-update", "--disable-sync", "--disable-default-apps", "--mute-audio"),
            *("--disable-extensions", "--no-proxy-server", "--lang=en", "--force-color-profile=srgb"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, str(to_it), str(from_it), program, *arguments],
            pass_fds=(to_it, from_it),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_it)
        os.close(from_it)
        self._out = os.fdopen(ours, "wb", buffering=0)
        self._in = os.fdopen(theirs, "rb", buffering=0)
        self._number = 0
        self._answers: dict[int, Any] = {}
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self.complaints: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._open()
        except BaseException:
            self.stop()
            raise

    def _open(self) -> None:
        target = self._call("Target.createTarget", url="about:blank", session="")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True, session="")["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self._call(f"{domain}.enable")

    def stop(self) -> None:
        """End it, with all of its processes."""
        with suppress(BrowserFailed, OSError, subprocess.TimeoutExpired):
            self._call("Browser.close", session="", patience_seconds=5)
            self._process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own group: it was started as a session leader
        self._process.wait()
        self._out.close()
        self._reader.join(10)
        self._in.close()

    # What a person does.

    def go(self, url: str) -> None:
        """Type an address, and wait until the page is there."""
        self._and_load(lambda: self._call("Page.navigate", url=url))

    def click(self, selector: str) -> None:
        """Click what leads to another page, and wait until that is there."""
        self._and_load(lambda: self.tick(selector))

    def tick(self, selector: str) -> None:
        """Click what leads nowhere else."""
        x, y = self._place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field."""
        node = self._node(selector)
        self._call("DOM.focus", nodeId=node)
        self._call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        self._key(key, code)

    def enter(self, text: str) -> None:
        """Type a text into what has the focus, press Enter, and wait until the page is there."""
        self._call("Input.insertText", text=text)
        self._and_load(lambda: self._key("Enter", 13, text="\r"))

    def size(self, width: int, height: int, *, phone: bool = False, scale: float = 1) -> None:
        """The size of its window."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )

    def dark(self, dark: bool) -> None:
        """What its user likes."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def allow(self, permission: str, origin: str) -> None:
        """Let pages of an origin do what a person would be asked for."""
        self._call("Browser.grantPermissions", permissions=[permission], origin=origin, session="")

    def scripts(self, on: bool) -> None:
        """Whether scripts of pages run, from the next page on."""
        self._call("Emulation.setScriptExecutionDisabled", value=not on)

    # What a person sees.

    def url(self) -> str:
        """Where it is."""
        frame = self._call("Page.getFrameTree")["frameTree"]["frame"]
        return str(frame["url"])

    def html(self) -> str:
        """The page as it is now."""
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        return str(self._call("DOM.getOuterHTML", nodeId=root)["outerHTML"])

    def evaluate(self, expression: str) -> Any:
        """What a JavaScript expression gives; a promise is waited for."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserFailed(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def attribute(self, selector: str, name: str) -> str:
        """What an attribute of an element is."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).getAttribute({json.dumps(name)})"))

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent.trim()"))

    def roles(self) -> Counter[str]:
        """How many elements of each role a screen reader gets."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        return Counter(str(node["role"]["value"]) for node in nodes if not node["ignored"])

    def until(self, condition: str) -> None:
        """Wait until this expression is true."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise BrowserFailed(f"it never was: {condition}")
            time.sleep(0.05)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write what it shows as a PNG."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    # The protocol.

    def _and_load(self, act: Callable[[], Any]) -> None:
        with self._changed:
            self._events.clear()
        act()
        self._event("Page.loadEventFired")

    def _key(self, key: str, code: int, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def _place(self, selector: str) -> tuple[float, float]:
        node = self._node(selector)
        self._call("DOM.scrollIntoViewIfNeeded", nodeId=node)
        quad = self._call("DOM.getContentQuads", nodeId=node)["quads"][0]
        return sum(quad[::2]) / 4, sum(quad[1::2]) / 4

    def _node(self, selector: str) -> int:
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        node = int(self._call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"])
        if not node:
            raise BrowserFailed(f"there is no {selector} on {self.url()}")
        return node

    def _event(self, name: str) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: any(event["method"] == name for event in self._events), PATIENCE_SECONDS
            ):
                raise BrowserFailed(f"no {name}")

    def _call(
        self,
        method: str,
        session: str | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        **parameters: Any,
    ) -> Any:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._answers, patience_seconds):
                raise BrowserFailed(f"{method} was not answered")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserFailed(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                data = self._in.read(1 << 20)
            except (OSError, ValueError):
                return
            if not data:
                return
            *messages, rest = (rest + data).split(b"\0")
            with self._changed:
                for text in messages:
                    self._take(json.loads(text))
                self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        parameters = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:1000])
        elif message["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(parameters["args"])[:1000])
        elif message["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif message["method"] == "Page.loadEventFired":
            self._events.append(message)


def accessibility(browser: Chromium) -> list[str]:
    """What axe finds: names, labels, headings, landmarks, contrast, tables, …"""
    browser.evaluate(AXE_SCRIPT + "; true")
    found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map("
        "v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 200) + ' ' + n.failureSummary).join(' | '))))"
    )
    return list(json.loads(found))


def broken_words(browser: Chromium) -> list[str]:
    """Words of the page's content that a line's end breaks, but for very long ones."""
    return list(browser.evaluate(_BROKEN_WORDS))
