"""The user's own programs: the editor, the pager, and those that read the clipboard."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from handrail.cli._input.attachments import MAX_MEDIA_BYTES, media_type_of

_SECONDS = 5.0
_PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)


def find_editor() -> list[str]:
    """Return the user's editor command, or none."""
    return split_command(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")


def split_command(named: str) -> list[str]:
    """Return a command's words, or none if it cannot be read."""
    try:
        return shlex.split(named)
    except ValueError:  # a quotation mark is missing
        return []


def edit_text(editor: list[str], text: str, name: str = "message.md") -> str | None:
    """Return a text as the person left it in the editor; None if the editor failed."""
    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*editor, str(file)], check=False)  # noqa: S603  the person's own
            after = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    return after.rstrip("\n") if done.returncode == 0 else None


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
