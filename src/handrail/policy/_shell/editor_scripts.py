"""Finds shell commands in a text editor's words, as in ``vim -c '!git push'``."""

from __future__ import annotations

import re
from collections.abc import Iterator

EDITORS = frozenset("vim vi nvim ex view gvim mvim vimdiff emacs".split())
_SHELL = re.compile(r"!(.+)|\bterm(?:inal)?[ \t]+(.+)", re.DOTALL)
_CALL = re.compile(
    r"""(?:system|jobstart|execute|shell-command)\w*[\s("]*(['"])((?:(?!\1).)+)\1""", re.DOTALL
)


def commands_in_editor(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield texts an editor passes to a shell."""
    for word in argv[1:]:
        found = _SHELL.search(word)
        if found is not None:
            yield found[1] or found[2]
        for _, text in _CALL.findall(word):
            yield text.lstrip(":!")
