"""One text that a model can receive."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A text for models, made by running a call through the public API."""

    when: str
    """When it happens, as a phrase: `an unknown tool is called`."""
    kind: str
    """The `FailureKind` of the result, or `note` for text in a result that did not fail."""
    text: str
    """The exact text, with varying values such as times and ids normalized."""
