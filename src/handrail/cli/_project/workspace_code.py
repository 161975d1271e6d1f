"""Workspace code started by handrail itself, for hooks and MCP servers.

Such code needs trust, with exactly its content. A program outside the sandbox, or with a secret,
must not run code changeable by a sandboxed command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from handrail import HandrailError
from handrail._support.private_files import read_file
from handrail.cli._base.settings import is_trusted
from handrail.policy import CodeFiles, find_code_files

MAX_FOLDER_FILES = 2_000
SOURCES_ONLY = {"PYTHONPYCACHEPREFIX": os.devnull}
"""With this variable, Python neither reads nor writes compiled modules beside their sources.

Commands can write there, and trust is in the sources.
"""


class UntrustedCode(HandrailError):
    """A line runs untrusted workspace code. The message says which, and what to do."""


class StartedLine(NamedTuple):
    """A shell line started by handrail."""

    text: str
    privileged: bool
    """Whether it can do more than a sandboxed command: outside, with secrets, or with hosts."""
    variables: Mapping[str, str]
    folder: Path
    installed: bool = False
    """Whether an unknown installed program runs no workspace code."""

    def find_code(self, workspace: Path) -> CodeFiles:
        """Return the workspace files it runs."""
        return find_code_files(
            self.text,
            workspace,
            folder=self.folder,
            variables=self.variables,
            installed=self.installed,
        )

    def find_pinned(self, workspace: Path) -> tuple[Path, ...]:
        """Return the files and folders that need trust, and which commands must not change.

        In the sandbox, these are the files it names. Task files such as package.json must stay
        writable for commands: there, a program can do no more than a command.
        """
        code = self.find_code(workspace)
        return code.all if self.privileged else code.named

    def check(self, workspace: Path) -> None:
        """Raise UntrustedCode unless all its workspace code is trusted."""
        code = self.find_code(workspace)
        if self.privileged and code.unknown:
            raise UntrustedCode(
                f"cannot tell which workspace files `{self.text}` runs: {code.unknown}; "
                "put the program outside the workspace, or run it in the sandbox"
            )
        for path in code.all if self.privileged else code.named:
            if not is_trusted(workspace, path, read_code(path)):
                raise UntrustedCode(
                    f"{path} is not trusted, or changed since you trusted it; "
                    "review it with `handrail trust`"
                )

    def prepare(self, workspace: Path) -> Mapping[str, str]:
        """Check it, and return variables it must start with. Raises UntrustedCode."""
        self.check(workspace)
        return SOURCES_ONLY if self.privileged and self.find_code(workspace).all else {}


def read_code(path: Path) -> bytes:
    """Return the content trust in a file or folder is tied to; UntrustedCode if unreadable."""
    try:
        return _list_folder(path) if path.is_dir() else read_file(path)
    except OSError as error:
        raise UntrustedCode(f"cannot read {path}: {error.strerror}") from None


def _list_folder(folder: Path) -> bytes:
    """Return a list with a folder's files and links and their digests."""
    lines = sorted(_lines(folder))
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _lines(folder: Path) -> Iterator[str]:
    count = 0
    for above, folders, names in os.walk(folder):
        links = [name for name in folders if Path(above, name).is_symlink()]
        for name in (*names, *links):
            count += 1
            if count > MAX_FOLDER_FILES:
                raise OSError(0, f"it has more than {MAX_FOLDER_FILES:,} files")
            path = Path(above, name)
            is_link = path.is_symlink()
            found = f"-> {path.readlink()}" if is_link else sha256(read_file(path)).hexdigest()
            yield f"{path.relative_to(folder)}  {found}"
