"""What a browser finds wrong with a page: by axe-core, by text that is cut, and by its width."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from console.browser import Browser

AXE = Path(sys.prefix, "node_modules", "axe-core", "axe.min.js")
"""`make setup` installs it."""
STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_RUN = "axe.run({runOnly: %s, resultTypes: ['violations']}).then((found) => found.violations.map("
_RUN += "(one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ').slice(0, 300)))"
_CUT = """
(() => {
  const cut = [];
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (words.nextNode()) {
    const node = words.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('.sr, .skip, script') || !parent.checkVisibility()) continue;
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    let left = 0, right = document.documentElement.clientWidth, bottom = Infinity;
    for (let one = parent; one && one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one), outer = one.getBoundingClientRect();
      if (['hidden', 'clip'].includes(style.overflowX)) [left, right] = [outer.left, outer.right];
      if (['hidden', 'clip'].includes(style.overflowY)) bottom = outer.bottom;
    }
    if (box.left < left - 1 || box.right > right + 1 || box.bottom > bottom + 1) cut.push(node.data.trim().slice(0, 60));
  }
  return cut;
})()
"""


def find_barriers(browser: Browser) -> list[str]:
    """Check the page by axe-core: WCAG 2.2, A and AA."""
    if not browser.evaluate("'axe' in window"):
        browser.evaluate(AXE.read_text(encoding="utf-8"))
    found = browser.call(
        "Runtime.evaluate",
        expression=_RUN % json.dumps(STANDARD),
        awaitPromise=True,
        returnByValue=True,
    )
    assert "value" in found["result"], found
    several: list[str] = found["result"]["value"]
    return several


def find_cut(browser: Browser) -> list[Any]:
    """Return texts that are outside of the window or of what clips them, and a sideways scroll."""
    wide = browser.evaluate(SIDEWAYS)
    texts: list[Any] = browser.evaluate(_CUT)
    return [*texts, *([f"{wide} pixels"] if wide else [])]
