"""Opens a page in headless Chromium and reads back what a person would see go wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const shown = [...document.querySelectorAll("figure svg")].filter(s => s.getClientRects().length);
  const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && !e.closest("svg")
    && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.tagName + "." + e.className);
  const report = {
    inner: innerWidth, scroll: document.documentElement.scrollWidth,
    figures: document.querySelectorAll("figure").length,
    drawn: shown.filter(s => s.getBBox().width > 10 && s.getBoundingClientRect().height > 50).length,
    named: shown.filter(s => s.querySelector("title") && s.querySelector("desc")).length,
    images: [...document.images].map(i => i.complete && i.naturalWidth > 0),
    resources: performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:")),
    wide: wide,
  };
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(report);
  document.body.append(out);
}, 50));
</script>
"""


def chromium() -> str:
    """The browser's path. Absent: skip, or fail where ASSAY_REQUIRE_CHROMIUM=1 promises it."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    message = "no chromium on PATH: apt-get install chromium"
    if os.environ.get("ASSAY_REQUIRE_CHROMIUM") == "1":
        pytest.fail(message)
    pytest.skip(message)


def _run(arguments: list, home: Path) -> subprocess.CompletedProcess:
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-extensions",
        "--hide-scrollbars",
        f"--user-data-dir={home}",
        "--enable-logging=stderr",
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, encoding="utf-8", errors="replace"
    )


def probe(page: Path, width: int, folder: Path) -> dict:
    """Loads a copy of the page with a probe in it, in a frame of the given width, and returns the probe's findings
    with the console's messages. A frame, because a headless window may refuse to be as narrow as a phone."""
    text = page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>")
    frame = text.replace("&", "&amp;").replace('"', "&quot;")
    relay = (
        '<script>addEventListener("load", () => setTimeout(() => { const p = document.querySelector("iframe")'
        '.contentDocument.querySelector("#probe"); document.body.append(p ?? "no probe"); }, 800));</script>'
    )
    wrapper = folder / f"probe-{width}.html"
    wrapper.write_text(
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><link rel="icon" href="data:,"></head><body>'
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{frame}"></iframe>{relay}'
        "</body></html>",
        encoding="utf-8",
    )
    done = _run(
        [f"--window-size={max(width, 800)},1000", "--virtual-time-budget=5000", "--dump-dom", wrapper.as_uri()],
        folder / "profile",
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, f"chromium exited {done.returncode} without the probe's answer: {done.stderr[-800:]}"
    report = json.loads(unescape(found[1]))
    report["console"] = re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr)
    return report


def print_pdf(page: Path, folder: Path) -> Path:
    """The page as a printer would get it."""
    out = folder / "report.pdf"
    _run([f"--print-to-pdf={out}", "--no-pdf-header-footer", page.as_uri()], folder / "profile")
    return out
