"""Hostile texts on the screen where a person is asked: each is written out, counted or refused."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from approvals.questions import asked
from handrail.approvals import render_request

Show = Callable[[str], tuple[str, bool]]
"""A command as it is shown, and whether it is refused as too long."""

TEXTS: dict[str, str] = {
    "display-028": "\ud800",
    "display-030": f"ls{' ' * 400}; canary",
    "display-031": "ls" + "\t" * 200 + "; canary",
    "display-032": "ls" + "\n" * 200 + "canary",
    "display-033": "echo " + "a" * 11_000,
    "display-034": "write path=" + "d/" * 2_000 + " second",
}
"""Vectors that are described rather than spelled out."""
MARKED = {"display-025": r"p\u{430}ypal", "display-026": r"re\u{430}d_file"}
MARKED |= {"display-027": r"\u{FF52}\u{FF4D}"}
READABLE = {"display-036", "display-037", "display-035", "display-038"}
COUNTED = {
    "display-030": "[… 400 spaces …]; canary",
    "display-031": "[… 200 tabs …]; canary",
    "display-032": "[… 199 blank lines …]",
}
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
FILLERS = "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\ufe0f"


def is_raw(character: str) -> bool:
    """Whether a terminal would obey, hide or move it."""
    if character in "\n ":
        return False
    return unicodedata.category(character) in UNSEEN or character in FILLERS


def as_prompted(text: str) -> tuple[str, bool]:
    shown = render_request(asked({"command": text, "other": "second path"}))
    return "\n".join(line.text for line in shown.lines), shown.view.too_long


def as_printed(text: str) -> tuple[str, bool]:
    """The control: the text as it is."""
    return f"command: {text}\nother: second path", False


def as_masked(text: str) -> tuple[str, bool]:
    """The control for secrets: a mask that takes the destination with it."""
    shown, refused = as_prompted(text)
    return re.sub(r"Authorization.*", "***", shown), refused


def as_rendered(text: str) -> tuple[str, bool]:
    """The control for markup: comments are not shown."""
    shown, refused = as_prompted(text)
    return re.sub(r"<!--.*?-->", "", shown), refused


def said(vector: dict[str, Any]) -> str:
    return TEXTS.get(vector["id"], vector["input"]["text"])


def holds(vector: dict[str, Any], show: Show = as_prompted) -> bool:
    """Whether nothing raw is shown, nothing is lost, and what is odd is said."""
    text, one = said(vector), vector["id"]
    shown, refused = show(text)
    if one == "display-033":
        return refused
    checks = [
        not refused,
        not any(map(is_raw, shown)),
        re.search(r" {9}|\n{10}|[\u0300-\u036f]{4}", shown) is None,
        "other: second path" in shown,
        MARKED.get(one, "") in shown,
        COUNTED.get(one, "") in shown,
        one not in READABLE or text in shown,
        one != "display-034" or f"({len(text)} characters" in shown,
        not any(map(is_raw, text)) or one in COUNTED or "shown as \\u{...}" in shown,
    ]
    return all(checks)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors raw printing lets through."""
    return sum(not holds(vector, as_printed) for vector in vectors)


def load(text: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads(text)["vectors"]
    return vectors
