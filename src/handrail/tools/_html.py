"""HTML to Markdown; runs in a process of its own, the only place that knows html-to-markdown.

A parser that is fast on honest pages may take a gigabyte, or minutes, for a page made to hurt. So
it works in a process that has little of either, and whose end is nobody else's.
"""

from __future__ import annotations

import re
import resource
import sys

_CODE = re.compile(r"<pre\b.*?</pre\s*>", re.DOTALL | re.IGNORECASE)
_ANCHOR = re.compile(r"</?a\b[^>]*>", re.IGNORECASE)


def limit(seconds: int, size: int) -> None:
    """Let this process have so many seconds of work and bytes of memory, and no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def markdown(html: str, base: str) -> str:
    """The words of a page, and where links lead. No scripts, styles, hidden text or pictures."""
    from html_to_markdown import ConversionOptions, convert  # noqa: PLC0415  an extra

    options = ConversionOptions(
        base_url=base, bullets="-", extract_metadata=False, skip_images=True, hidden_content="drop"
    )
    # within code, the address of a link would stand in the middle of a line
    html = _CODE.sub(lambda code: _ANCHOR.sub("", code[0]), html)
    return convert(html, options).content or ""


def main(base: str, most: str, seconds: str, size: str) -> None:
    """Read a page from the standard input, and write the beginning of its text."""
    limit(int(seconds), int(size))
    text = markdown(sys.stdin.buffer.read().decode("utf-8"), base)
    sys.stdout.buffer.write(text[: int(most)].encode("utf-8", "replace"))
