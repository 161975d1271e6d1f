"""Names other programs run or obey, as one table with three uses, and paths git adds.

A tool's change to one needs approval in every mode. The sandbox makes the name read-only for
commands. A scan reports it if a command has changed it. A row without one of the three explains
why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

Held: TypeAlias = Literal["always", "existing", "never"]
"""When the sandbox holds a name: ``always`` also reserves it if it is missing."""

_PROJECT: Final = "part of the project: git and package managers replace it, which a mount prevents"
_REPOSITORY: Final = "its program changes it all the time; what the program obeys has its own row"


@dataclass(frozen=True)
class ObeyedName:
    """A file or folder some program runs or obeys."""

    name: str
    """A name, or a path's end. It matches in every folder. The sandbox protects it at the top."""
    reason: str
    """Why a change needs approval, as a clause. ``{}`` is replaced by the name."""
    is_folder: bool
    """Whether everything in it counts."""
    held: Held = "existing"
    scanned: bool = True
    unless_in: frozenset[str] = frozenset()
    """Folders in which the name means nothing special."""
    differs: str = ""
    """Why not all three uses apply, or "" if they do."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The name's parts, in lower case."""
        return tuple(self.name.lower().split("/"))

    def ends(self, segments: Sequence[str]) -> bool:
        """Return whether a path, as segments in lower case, ends with this name."""
        return tuple(segments[-len(self.parts) :]) == self.parts and self.unless_in.isdisjoint(
            segments
        )

    @property
    def why(self) -> str:
        """Why a change needs approval."""
        return self.reason.format(self.name)


def _rows(  # noqa: PLR0913  a row has these columns
    reason: str,
    *,
    folders: str = "",
    files: str = "",
    held: Held = "existing",
    scanned: bool = True,
    unless_in: str = "",
    differs: str = "",
) -> list[ObeyedName]:
    named = [(name, True) for name in folders.split()] + [(name, False) for name in files.split()]
    return [
        ObeyedName(name, reason, is_folder, held, scanned, frozenset(unless_in.split()), differs)
        for name, is_folder in named
    ]


_VERSION_CONTROL: Final = [
    *_rows(
        "git runs hooks and commands from {}",
        folders=".git git~1",
        held="never",
        scanned=False,
        differs=_REPOSITORY,
    ),
    *_rows("git runs the hooks in {}", folders=".git/hooks .husky", held="always"),
    *_rows("git runs the hooks in {}", folders=".githooks githooks"),
    *_rows("git runs commands from it", files=".git/config", held="always"),
    *_rows(
        "git runs commands from it",
        files=".git/config.worktree .git/commondir .git/info/attributes .gitconfig",
    ),
    *_rows(
        "git runs the commands in it when a rebase continues",
        files="git-rebase-todo",
        held="never",
        differs="a command that rebases writes it",
    ),
    *_rows(
        "git takes a folder with this file for a repository",
        files="HEAD",
        held="never",
        scanned=False,
        differs="git writes such files; the scan reports the repository that they belong to",
    ),
    *_rows(
        "git runs commands from it",
        files=".gitmodules .gitattributes",
        held="never",
        differs=_PROJECT,
    ),
    *_rows(
        "hooks are installed from it",
        files="""
        .pre-commit-config.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml
        lefthook-local.yml .overcommit.yml .simple-git-hooks.json .huskyrc
        """,
        held="never",
        differs=_PROJECT,
    ),
    *_rows(
        "Mercurial runs hooks and extensions from {}",
        folders=".hg",
        held="never",
        scanned=False,
        differs=_REPOSITORY,
    ),
    *_rows(
        "Mercurial runs hooks and extensions from it",
        files=".hg/hgrc .hg/hgrc-not-shared .hg/requires .hg/sharedpath .hgrc",
    ),
    *_rows(
        "Jujutsu runs commands from {}",
        folders=".jj",
        held="never",
        scanned=False,
        differs=_REPOSITORY,
    ),
    *_rows(
        "Jujutsu runs commands from it",
        files=".jj/repo/config.toml .jj/workspace-config.toml .jj/repo/store/git_target",
    ),
]
_AGENTS_AND_EDITORS: Final = [
    *_rows("handrail reads settings and rules from {}", folders=".handrail", held="always"),
    *_rows("handrail takes settings from it", files="handrail.toml"),
    *_rows("your editor runs tasks from {}", folders=".vscode .idea .devcontainer", held="always"),
    *_rows("your editor runs tasks from {}", folders=".zed .fleet .vs"),
    *_rows("your editor runs commands from it", files=".devcontainer.json .dir-locals.el"),
    *_rows("vim runs it", files=".vimrc .exrc .nvimrc .nvim.lua .lvimrc"),
    *_rows(
        "coding agents obey the files in {}",
        folders=".agents .claude .codex .cursor .gemini",
        held="always",
    ),
    *_rows(
        "coding agents obey the files in {}",
        folders="""
        .amazonq .augment .cline .clinerules .continue .crush .factory .junie .kiro .opencode .qwen
        .roo .trae .windsurf
        """,
    ),
    *_rows(
        "coding agents obey the files in {}",
        folders=".github/chatmodes .github/instructions .github/prompts",
        held="never",
        differs=_PROJECT,
    ),
    *_rows("coding agents start the servers in it", files=".mcp.json", held="always"),
    *_rows("coding agents run commands from it", files=".aider.conf.yml crush.json opencode.json"),
    *_rows(
        "coding agents obey it",
        files="""
        AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md WARP.md
        .cursorrules .goosehints .roorules .windsurfrules .github/copilot-instructions.md
        """,
        held="never",
        differs=_PROJECT,
    ),
]
_SHELLS_AND_TOOLS: Final = [
    *_rows(
        "your shell runs it",
        files="""
        .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv
        .zprofile .zlogin .zlogout .kshrc .login .cshrc .tcshrc .xprofile .xinitrc .xsessionrc
        """,
    ),
    *_rows("your shell takes key bindings from it", files=".inputrc"),
    *_rows("direnv runs it", files=".envrc"),
    *_rows("direnv loads {}", folders=".direnv"),
    *_rows("mise runs commands from it", files=".mise.toml mise.toml .mise.local.toml"),
    *_rows("{} holds keys and credentials", folders=".ssh .gnupg .aws .kube"),
    *_rows(
        "{} holds keys and credentials",
        folders=".docker",
        held="never",
        scanned=False,
        differs="projects keep Dockerfiles in a folder of this name",
    ),
    *_rows("it holds passwords", files=".netrc"),
    *_rows("it decides who can log in", files="authorized_keys"),
    *_rows("ripgrep takes options from it", files=".ripgreprc"),
    *_rows("curl takes options from it", files=".curlrc"),
    *_rows("wget takes options from it", files=".wgetrc"),
    *_rows("tmux runs it", files=".tmux.conf"),
    *_rows("a debugger runs it", files=".pdbrc .gdbinit .lldbinit"),
    *_rows("an interpreter runs it at startup", files=".Rprofile .Renviron .irbrc .pryrc"),
]
_BUILDS: Final = [
    *_rows(
        "Python runs code from {}",
        folders=".venv venv",
        scanned=False,
        differs="package managers fill it; commands cannot change one that exists",
    ),
    *_rows(
        "Python takes a folder with this file for an environment",
        files="pyvenv.cfg",
        scanned=False,
        differs="making an environment is an ordinary command",
    ),
    *_rows("Python runs it at startup", files="sitecustomize.py usercustomize.py"),
    *_rows(
        "pytest runs it",
        files="conftest.py",
        held="never",
        unless_in="test tests",
        differs=_PROJECT,
    ),
    *_rows(
        "package managers obey it",
        files="""
        .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .condarc bunfig.toml .bazelrc
        .bundle/config .cargo/config .cargo/config.toml
        """,
        held="never",
        differs=_PROJECT,
    ),
    *_rows(
        "package managers run code from {}",
        folders=".yarn/releases .yarn/plugins .mvn",
        held="never",
        differs=_PROJECT,
    ),
    *_rows(
        "CI runs it",
        folders="""
        .github/workflows .github/actions .gitea/workflows .forgejo/workflows .circleci .buildkite
        .semaphore .teamcity .woodpecker
        """,
        files="""
        .gitlab-ci.yml .travis.yml azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml
        Jenkinsfile .drone.yml .cirrus.yml .woodpecker.yml appveyor.yml .appveyor.yml
        """,
        held="never",
        differs=_PROJECT,
    ),
]
# one table, since three lists of the same names differed: decision 039
OBEYED_NAMES: Final = (*_VERSION_CONTROL, *_AGENTS_AND_EDITORS, *_SHELLS_AND_TOOLS, *_BUILDS)
NameIndex: TypeAlias = Mapping[str, Sequence[ObeyedName]]
"""Rows by their names' last part, in lower case."""


def index_names(rows: Iterable[ObeyedName]) -> NameIndex:
    """Return an index for ``find_name``."""
    index: dict[str, list[ObeyedName]] = {}
    for row in rows:
        index.setdefault(row.parts[-1], []).append(row)
    return index


def find_name(index: NameIndex, segments: Sequence[str]) -> ObeyedName | None:
    """Return the row for a path or a folder around it. The path is lower-case segments."""
    for at, segment in enumerate(segments, 1):
        for row in index.get(segment, ()):
            if (row.is_folder or at == len(segments)) and row.ends(segments[:at]):
                return row
    return None
