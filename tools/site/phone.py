# SPDX-License-Identifier: Apache-2.0
"""Opens each page of the site as a phone of 390 × 844 would, without a network, in headless Chromium.

Reports pages that are wider than the screen, failed or external requests, and errors of scripts; then
searches for a word from the site's own search box. Exit code 1 if anything was reported.

    tools/site/phone.py target/site [--pictures DIR] [PAGE…]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 390, 844
SEARCHED, FOUND_IN = "policer", ".md-search-result__link"
_ANSWER_S = 60.0
_WIDTHS = "JSON.stringify([document.scrollingElement.scrollWidth, innerWidth])"
_SEARCH = f"""(async () => {{
  document.querySelector("[data-md-toggle=search]").click();
  const box = document.querySelector("[data-md-component=search-query]");
  box.focus();
  box.value = "{SEARCHED}";
  for (let tries = 0; tries < 100; ++tries) {{
    box.dispatchEvent(new KeyboardEvent("keyup", {{ bubbles: true }}));
    await new Promise((later) => setTimeout(later, 100));
    if (document.querySelectorAll("{FOUND_IN}").length) break;
  }}
  return document.querySelectorAll("{FOUND_IN}").length;
}})()"""


class Browser:
    """Chromium, driven over its DevTools pipe."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        """Attach to a page of the browser behind the two ends of its pipe."""
        self._out, self._in = to_browser, from_browser
        self._number, self._rest, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; events that arrive meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._next()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, after its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            received = os.read(self._in, 1 << 20)
            if not received:
                raise RuntimeError("Chromium has exited")
            self._rest += received
        message, _, self._rest = self._rest.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        if "method" in parsed:
            self.events.append(parsed)
        return parsed


def _wait_for_group(group: int, limit_s: float = 30.0) -> None:
    """Wait until all processes of the browser have ended, as they write to its profile; kill the rest."""
    give_up = time.monotonic() + limit_s
    with suppress(ProcessLookupError):
        while time.monotonic() < give_up:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium with a phone's screen. Its DevTools read descriptor 3 and write descriptor 4."""
    program = shutil.which("chromium") or sys.exit("no Chromium; install it with: apt-get install chromium")
    options = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += [
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
    ]
    if os.geteuid() == 0:  # its sandbox does not run as root
        options.append("--no-sandbox")
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="weir-") as profile:
        start = f'exec 3<&{read_commands} 4>&{write_answers}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", start, "bash", program, *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=[read_commands, write_answers],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_commands)
        os.close(write_answers)
        try:
            opened = Browser(commands, answers)
            opened.call(
                "Emulation.setDeviceMetricsOverride",
                width=WIDTH, height=HEIGHT, deviceScaleFactor=2, mobile=True,
            )  # fmt: skip
            yield opened
        finally:
            process.terminate()
            process.wait(timeout=30)
            _wait_for_group(process.pid)


def problems_of(opened: Browser, url: str) -> list[str]:
    """The faults of a page."""
    opened.open(url)
    scroll_width, width = json.loads(opened.evaluate(_WIDTHS))
    problems = [f"{scroll_width} px wide on a screen of {width} px"] if scroll_width > width else []
    for event in opened.events:
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            requested = parameters["request"]["url"]
            if not requested.startswith(("file:", "data:", "blob:", "about:")):
                problems.append(f"requests {requested}")
        elif event["method"] == "Network.loadingFailed" and not parameters.get("canceled"):
            problems.append(f"a request failed: {parameters['errorText']}")
        elif event["method"] == "Runtime.exceptionThrown":
            problems.append(f"script error: {parameters['exceptionDetails']['text']}")
    return problems


def main() -> int:
    """Check all pages, or those given; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--pictures", type=Path, help="write a picture of each page to this folder")
    given = parser.parse_args()
    site = given.site.resolve()
    # 404.html is for servers: its paths begin at the server's root.
    pages = [site / page for page in given.pages] or sorted(set(site.rglob("*.html")) - {site / "404.html"})
    found = 0
    with browser() as opened:
        for page in pages:
            for problem in problems_of(opened, page.as_uri()):
                found += 1
                print(f"{page.relative_to(site)}: {problem}")
            if given.pictures is not None:
                given.pictures.mkdir(parents=True, exist_ok=True)
                picture = opened.call("Page.captureScreenshot")["data"]
                name = str(page.relative_to(site)).replace("/", "-")
                (given.pictures / f"{name}.png").write_bytes(base64.b64decode(picture))
        opened.open((site / "index.html").as_uri())
        results = opened.evaluate(_SEARCH)
        if not results:
            found += 1
            print(f"the search for {SEARCHED!r} found nothing")
    print(f"{len(pages)} pages, {found} problems; the search found {results} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
