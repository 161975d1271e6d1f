"""Plain text: what a definition's author wrote, in one line and bounded."""

from __future__ import annotations

from handrail._values.strict_json import clip

MAX_READ = 1_000
"""Characters read from a description for its first sentence."""


def one_line(text: str, most: int) -> str:
    """Return a text as one line with at most ``most`` printable characters."""
    words = " ".join(text[: 4 * most].split())
    return clip(words if words.isprintable() else "".join(filter(str.isprintable, words)), most)


def first_sentence(text: str) -> str:
    """Return a text's first sentence, without its full stop."""
    paragraph, _, _ = text.lstrip()[:MAX_READ].partition("\n\n")
    line = one_line(paragraph, MAX_READ)
    end = next((at for at, mark in enumerate(line) if _ends(line, at, mark)), len(line))
    return line[:end]


def _ends(line: str, at: int, mark: str) -> bool:
    """Return whether a sentence ends here, and not an abbreviation such as `e.g.`."""
    if mark not in ".!?" or line[at + 1 : at + 2] not in ("", " "):
        return False
    word = line[:at].rpartition(" ")[2]
    return "." not in word and len(word) > 1
