"""Read a JSON object from a file only its owner should write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handrail import HandrailError
from handrail._support import is_object
from handrail._support.private_files import read_private_file


def read_private_table(file: Path) -> dict[str, Any]:
    """Return the object in a file, or an empty one if there is no file.

    Raises HandrailError if the file is damaged, or if other users can write it.
    """
    try:
        content, others_can_write = read_private_file(file)
        table: Any = json.loads(content)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise HandrailError(f"{file} cannot be read: {error}. Remove it.") from None
    if others_can_write or not is_object(table):
        raise HandrailError(
            f"{file} is not used: other users can write it, or it is damaged. Remove it."
        )
    return table
