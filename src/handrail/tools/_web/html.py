"""Converts HTML to Markdown in a separate process; the only module that imports html-to-markdown.

A parser that is fast on normal pages may need a gigabyte or minutes for a malicious one. So it
runs in a process with little memory and time, which can be killed safely.
"""

from __future__ import annotations

import re
import resource
import sys

_CODE = re.compile(r"<pre\b[^<]*+(?:<(?!pre\b|/pre\s*+>)[^<]*+)*+</pre\s*+>", re.IGNORECASE)
_ANCHOR = re.compile(r"</?a\b[^>]*+(?:>|\Z)", re.IGNORECASE)


def limit(seconds: int, size: int) -> None:
    """Limit the processor time and this process's memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # no parser is safe against every page: decision 021
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def markdown(html: str, base: str) -> str:
    """Return the text and links of a page, without scripts, styles, hidden text and images."""
    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(
        base_url=base, bullets="-", extract_metadata=False, skip_images=True, hidden_content="drop"
    )
    # in code, the address of a link would be in the middle of a line
    html = _CODE.sub(lambda code: _ANCHOR.sub("", code[0]), html)
    return convert(html, options).content or ""


def main(base: str, max_chars: str, seconds: str, size: str) -> None:
    """Read a page from the standard input, and write the beginning of its text."""
    limit(int(seconds), int(size))
    text = markdown(sys.stdin.buffer.read().decode("utf-8"), base)
    sys.stdout.buffer.write(text[: int(max_chars)].encode("utf-8", "replace"))
