"""A codec seals texts with your key before they are stored, and opens them again."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass

from handrail.runs.journal import JournalError

MARK = "\x02"
"""A sealed text's first character. No other stored text begins with it."""
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class KeyMissing(JournalError):
    """A text cannot be sealed, or opened: its key is missing or wrong, or it was changed."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Seals run texts at rest. Its functions are called in several threads at once."""

    key_id: str
    """The key's name for new texts: up to 64 letters, digits, dots, dashes, underscores."""
    encode: Callable[[bytes], bytes]
    """Encrypts with this key. Use a cipher that notices changes, such as AES-GCM."""
    decode: Callable[[str, bytes], bytes]
    """Decrypts, given the key's name. Raises any error if it cannot."""

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.key_id):
            raise ValueError(f"Invalid name of a key: {self.key_id!r}.")

    def seal(self, text: str) -> str:
        """Return a text as it is stored. Raises KeyMissing."""
        try:
            data = self.encode(text.encode("utf-8", "surrogatepass"))
        except Exception as error:
            raise KeyMissing(
                f"A text cannot be sealed with the key {self.key_id!r} ({type(error).__name__})."
            ) from error
        return f"{MARK}{self.key_id}:{b64encode(data).decode('ascii')}"

    def has_sealed(self, stored: str) -> bool:
        """Return whether a stored text is sealed with the key for new texts."""
        return stored.startswith(f"{MARK}{self.key_id}:")


def open_text(codec: Codec | None, stored: str) -> str:
    """Return a text as it was before it was sealed. Raises KeyMissing."""
    if not stored.startswith(MARK):
        return stored
    key, _, data = stored[1:].partition(":")
    if codec is None:
        raise KeyMissing(f"This text is sealed with the key {key!r}: give `codec`.")
    try:
        return codec.decode(key, b64decode(data, validate=True)).decode("utf-8", "surrogatepass")
    except binascii.Error as error:
        raise KeyMissing(f"A text that is sealed with the key {key!r} was changed.") from error
    except Exception as error:
        raise KeyMissing(
            f"This text is sealed with the key {key!r}, and `codec` cannot open it "
            f"({type(error).__name__}): its key is missing or wrong, or the text was changed."
        ) from error
