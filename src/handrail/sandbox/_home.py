"""The readable part of the home folder: only what tools need."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Final

from handrail.sandbox._git_names import has_entries
from handrail.sandbox._protected import is_beneath, is_beneath_any
from handrail.sandbox._values import SandboxUnavailable

_SHOWN: Final = (
    r"^(user\.(name|email)|init\.defaultbranch|safe\.directory|merge\.conflictstyle"
    r"|core\.(attributesfile|autocrlf|eol|excludesfile|quotepath|safecrlf)"
    r"|diff\.algorithm|pull\.(ff|rebase)|push\.default)$"
)
_FOUND_BY: Final = ("GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME")
_MAX_SECONDS: Final = 5.0
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def write_git_settings(file: Path, *, root: str, path: str) -> str:
    """Write a reduced copy of the user's git configuration, and return its path.

    Args:
        file: The file, which is empty without git or settings.
        root: The workspace. An ``includeIf`` may depend on it.
        path: The PATH to find git in.
    """
    file.write_text(_read_git_settings(root, path), encoding="utf-8")
    return str(file)


def _read_git_settings(root: str, path: str) -> str:
    program = shutil.which("git", path=path)
    if program is None:
        return ""
    found_by = {name: os.environ[name] for name in _FOUND_BY if name in os.environ}
    words = [program, "config", "--null", "--includes", "--get-regexp", _SHOWN]
    with suppress(subprocess.TimeoutExpired, OSError):
        done = subprocess.run(  # noqa: S603  an absolute path outside the workspace
            words,
            cwd=root,
            env={**found_by, "GIT_CONFIG_NOSYSTEM": "1", "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        entries = done.stdout.decode(errors="replace").split("\0")[:-1]
        return "".join(_format(*entry.partition("\n")) for entry in entries)
    return ""


def _format(key: str, separator: str, value: str) -> str:
    """Return a setting as configuration file lines. Without a value it means true."""
    section, _, name = key.partition(".")
    given = f' = "{value.translate(_ESCAPES)}"' if separator else ""
    return f"[{section}]\n\t{name}{given}\n"


# what is shown, since a list of secrets is never complete: decision 040
NEEDED: Final = """
    .asdf .bun/bin .bun/install .cabal/bin .cabal/packages .cabal/store .cache/Cypress
    .cache/coursier .cache/deno .cache/go-build .cache/ms-playwright .cache/node .cache/pip
    .cache/pnpm .cache/pre-commit .cache/puppeteer .cache/pypoetry/virtualenvs .cache/uv
    .cache/yarn .cargo/bin .cargo/git .cargo/registry .config/git/attributes .config/git/ignore
    .deno/bin .dotnet/dotnet .dotnet/host .dotnet/packs .dotnet/sdk .dotnet/shared .dotnet/tools
    .elan .fnm .gem/ruby .ghcup .gitignore .gitignore_global .goenv .gradle/caches .gradle/jdks
    .gradle/wrapper .jabba .jdks .jenv .julia/artifacts .julia/compiled .julia/environments
    .julia/juliaup .julia/packages .julia/registries .juliaup .local/bin .local/lib
    .local/pipx/venvs .local/share/fnm .local/share/gem/ruby .local/share/hatch/env
    .local/share/hatch/pythons .local/share/mise .local/share/pipx .local/share/pnpm
    .local/share/rtx .local/share/swiftly .local/share/uv/python .local/share/uv/tools
    .local/share/virtualenvs .local/state/nix .m2/repository .m2/wrapper .nix-profile .nodenv
    .npm-global/bin .npm-global/lib .npm-packages/bin .npm-packages/lib .npm/_cacache .npm/_npx
    .nuget/packages .nvm .opam .phpenv .pixi .plenv .proto .pyenv .rbenv .rustup .rvm .rye/py
    .rye/self .rye/shims .rye/tools .rye/uv .sdkman/candidates .stack/programs .stack/snapshots
    .swiftly .tfenv .virtualenvs .volta .yarn/berry .yarn/cache anaconda3 go/bin go/pkg mambaforge
    micromamba miniconda3 miniforge3 sdk
""".split()
"""Toolchains, installed programs, and caches tools read.

No settings: package managers store tokens in them. If a tool stores tokens beside its programs,
only some folders are named.
"""
_SHARED_PREFIXES: Final = ("", ".local", ".npm-global", ".npm-packages")
"""Folders larger than a toolchain, although they have a `bin`."""
_SYSTEM: Final = ("/dev", "/etc", "/proc", "/run", "/sys", "/usr")
"""System users may have their home folders here. Those are shared, and stay visible."""
_MAX_LINE_BYTES: Final = 4096


def find_homes() -> tuple[str, ...]:
    """Return the user's real home folders: by ``HOME``, and by the user's id.

    They differ if a program was started for another user, for example with ``sudo``.
    """
    named = [os.environ.get("HOME", "")]
    with suppress(KeyError):  # the system may not know this user
        named.append(pwd.getpwuid(os.geteuid()).pw_dir)
    real = dict.fromkeys(os.path.realpath(home) for home in named if home.startswith("/"))
    return tuple(
        home
        for home in real
        if home != "/" and not is_beneath_any(home, _SYSTEM) and os.path.isdir(home)  # noqa: PTH112  see below
    )


def contains_home(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is the user's home folder, or contains it.

    Such a folder cannot be a workspace: what is written there can run at the next login.
    """
    return _find_home_in(os.path.realpath(folder)) is not None


def require_no_home(root: str) -> None:
    """Raise SandboxUnavailable if a real path is the user's home folder, or contains it."""
    home = _find_home_in(root)
    if home is not None:
        verb = "is" if home == root else "contains"
        raise SandboxUnavailable(
            f"{root} {verb} your home folder, where commands could change what runs when you log "
            "in. Use a folder inside it, or pass writable=('.',) to allow that."
        )


def _find_home_in(folder: str) -> str | None:
    return next((home for home in find_homes() if is_beneath(home, folder)), None)


@dataclass(frozen=True, slots=True)
class HomeView:
    """The home folders, and their shown part at one moment."""

    hidden: tuple[str, ...]
    """Real home folder paths. None is inside another."""
    shown: tuple[tuple[str, str], ...]
    """Paths in them, and the real paths shown there. None is inside another."""


class HomeFolder:
    """The home folders, as needed by a workspace and a sandbox's options.

    Args:
        root: The workspace. Its repository is shown.
        written: Folders writable for commands. They are shown anyway.
        readable: Paths your application shows, in addition.
        folders: The folders in PATH.
        git_file: Where to write the git settings replacing ``.gitconfig``.
    """

    def __init__(
        self,
        root: str,
        *,
        written: Sequence[str],
        readable: Sequence[str],
        folders: Sequence[str],
        git_file: Path,
    ) -> None:
        homes = find_homes()
        self._user_home = homes[0] if homes else ""
        self._write_git_settings = partial(
            write_git_settings, git_file, root=root, path=os.pathsep.join(folders)
        )
        self.hidden = _find_hidden(homes, (*written, *readable))
        """The outermost home folders shown only in part."""
        self._written = written
        needed = [
            *(f"{home}/{name}" for home in homes for name in NEEDED),
            *(_program_folder(folder, homes) for folder in folders),
            *_repository_paths(root, homes),
        ]
        wanted = {path for path in needed if not any(is_beneath(home, path) for home in homes)}
        wanted.update(readable)
        self._wanted = sorted(path for path in wanted if _is_within(path, self.hidden))
        self._watched = sorted({os.path.dirname(path) for path in self._wanted})  # noqa: PTH120
        self._state: list[int] = []
        self._view = HomeView((), ())

    @cached_property
    def git_settings(self) -> str:
        """The path of a file with the user's harmless git settings."""
        return self._write_git_settings()

    def view(self) -> HomeView:
        """Return what to show from the home folders, as of now."""
        state = [_modified(folder) for folder in self._watched]
        if state != self._state:
            self._state, self._view = state, HomeView(self.hidden, tuple(self._find_shown()))
        return self._view

    def _find_shown(self) -> Iterator[tuple[str, str]]:
        """Yield the outermost existing wanted paths, each with its real path."""
        own, taken = f"{self._user_home}/.gitconfig", list[str]()
        if is_beneath_any(own, self.hidden) and not is_beneath_any(own, self._written):
            taken.append(own)
            yield own, self.git_settings
        for path in self._wanted:
            real = os.path.realpath(path)
            known = is_beneath_any(path, (*taken, *self._written))
            # a command could replace what it can write by a link to another place; unlike pathlib,
            # this skips a folder the user may not enter
            if not known and os.path.exists(real) and not is_beneath_any(real, self._written):  # noqa: PTH110
                taken.append(path)
                yield path, real


def _find_hidden(homes: Sequence[str], opened: Collection[str]) -> tuple[str, ...]:
    """Return the outermost home folders, except those opened as a whole."""
    closed = [home for home in homes if not is_beneath_any(home, opened)]
    return tuple(home for home in closed if not _is_within(home, closed))


def _modified(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  there are many
    except OSError:
        return 0


def _is_within(path: str, homes: Iterable[str]) -> bool:
    return any(path != home and is_beneath(path, home) for home in homes)


def _program_folder(folder: str, homes: Sequence[str]) -> str:
    """Return a toolchain's whole folder for its `bin`, otherwise the folder itself."""
    above, _, name = folder.rstrip("/").rpartition("/")
    shared = {os.path.normpath(f"{home}/{prefix}") for home in homes for prefix in _SHARED_PREFIXES}
    own = name in ("bin", "sbin") and above not in shared and os.path.lexists(f"{above}/lib")
    return above if own else folder


def _repository_paths(root: str, homes: Sequence[str]) -> Iterator[str]:
    """Yield a workspace's repository: its top folder, and a worktree's."""
    above = [str(folder) for folder in (Path(root), *Path(root).parents)]
    tops = (top for top in above if _is_within(top, homes) and has_entries(f"{top}/.git"))
    for top in islice(tops, 1):
        yield from _worktree_paths(top)
        if top != root:
            yield top


def _worktree_paths(top: str) -> Iterator[str]:
    """Yield the folder a worktree shares with its repository.

    A command may have written the `.git` file. So its folder must be where git puts it, inside a
    repository, and must name the worktree, too. Its other files are not read.
    """
    own = _read_path(f"{top}/.git", top, "gitdir: ")
    shared, _, name = own.rpartition("/worktrees/")
    is_repository = os.path.isfile(f"{shared}/HEAD") and os.path.isdir(f"{shared}/objects")  # noqa: PTH112, PTH113
    back = _read_path(f"{own}/gitdir", own) if name and "/" not in name and is_repository else ""
    if back == os.path.realpath(f"{top}/.git"):
        yield shared


def _read_path(file: str, folder: str, prefix: str = "") -> str:
    """Return the real path named by a file's first line, or ""."""
    if not os.path.isfile(file):  # noqa: PTH113  as above
        return ""
    with Path(file).open("rb") as opened:
        line = os.fsdecode(opened.read(_MAX_LINE_BYTES).partition(b"\n")[0])
    named = line.removeprefix(prefix)
    return os.path.realpath(Path(folder, named)) if named and line.startswith(prefix) else ""
