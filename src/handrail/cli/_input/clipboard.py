"""Reads an image from the clipboard, by the desktops' programs for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from handrail.cli._input.attachments import MAX_MEDIA_BYTES, media_type_of

_SECONDS = 5.0
_PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)


def read_clipboard_image() -> bytes | None:
    """Return the image in the clipboard; None if there is none, or no program to read it."""
    folders = [one for one in os.get_exec_path() if Path(one).is_absolute()]
    for name, *options in _PROGRAMS:
        program = shutil.which(name, path=os.pathsep.join(folders))
        if program is None:
            continue
        try:
            done = subprocess.run(  # noqa: S603  an absolute path, without a shell
                [program, *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if media_type_of(done.stdout).startswith("image/") and len(done.stdout) <= MAX_MEDIA_BYTES:
            return done.stdout
    return None
