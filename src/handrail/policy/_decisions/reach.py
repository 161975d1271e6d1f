"""Reads, from a command, which files it reads without naming them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple, TypeAlias

from handrail.policy._shell.wrappers import program_name

FileSet: TypeAlias = Literal["names", "files", "visible files", "tracked files", "history"]
"""File names alone, all files, those without a leading dot, tracked files, or those in any commit.
"""

LISTS_NAMES = frozenset("ls tree find fd fdfind du".split())
"""Programs showing file names, and no content."""
_PACKERS = frozenset("tar bsdtar gtar".split())
_COPIERS = _PACKERS | frozenset("cp rsync scp zip".split())
"""Programs copying whole folders."""
_RUNS = frozenset("-exec -execdir -ok -okdir".split())
_SHOWING = frozenset(
    "cat head tail less more grep egrep fgrep rg strings xxd od base64 nl tac sed awk".split()
)
"""Programs showing content from files given to them by another program."""
_SEARCHES = frozenset("grep egrep fgrep zgrep ggrep rgrep diff".split())
_RECURSIVE_SEARCHES = frozenset("rg ag ack ack-grep rgrep".split())
_RECURSIVE_FLAGS = ("--recursive", "--dereference-recursive", "--directories")
_GREPS = _SEARCHES - {"diff"}
_GREP_VALUES = frozenset(
    """
    -A -B -C -D -d -e -f -m --regexp --file --max-count --label --after-context --before-context
    --context --include --exclude --exclude-from --exclude-dir --binary-files --devices
    --directories --group-separator
    """.split()
)
_RG_VALUES = frozenset(
    """
    -A -B -C -d -E -e -f -g -j -M -m -r -t -T --after-context --before-context --context --color
    --colors --context-separator --dfa-size-limit --encoding --engine --field-context-separator
    --field-match-separator --file --glob --iglob --ignore-file --max-columns --max-count
    --max-depth --max-filesize --path-separator --pre --pre-glob --regex-size-limit --regexp
    --replace --sort --sortr --threads --type --type-add --type-clear --type-not --hostname-bin
    --hyperlink-format --generate
    """.split()
)
"""Flags with a value."""
_PATTERN_FLAGS = frozenset("-e -f --regexp --file".split())
_NAME_FLAGS = frozenset("--include -g --glob --iglob".split())
_TYPES = {
    "py": "py pyi", "python": "py pyi", "js": "js jsx mjs cjs vue", "ts": "ts tsx mts cts",
    "typescript": "ts tsx mts cts", "rust": "rs", "go": "go", "java": "java jsp", "c": "c h",
    "cpp": "cpp cc cxx hpp hh h", "ruby": "rb", "php": "php", "css": "css scss", "html": "html htm",
    "md": "md mdx markdown", "markdown": "md mdx markdown",
}  # fmt: skip
"""Name endings for each ripgrep type."""
_SHOWS_ALL = ("--hidden", "--no-ignore", "--unrestricted", "--glob", "--iglob", "--type")
"""Long rg flags, or their beginnings, for searching files with a leading dot."""

_PATCH_BY_DEFAULT = frozenset("show diff format-patch range-diff".split())
_PATCH_BY_FLAG = frozenset(
    "log whatchanged reflog rev-list diff-tree diff-index diff-files".split()
)
_TRACKED_ONLY = frozenset("diff diff-files diff-index status".split())
_PATCH_FLAGS = (
    "--patch", "--patch-with-stat", "--patch-with-raw", "--unified", "--function-context",
    "--binary", "--word-diff", "--word-diff-regex", "--color-words", "--cc", "--check",
    "--ext-diff", "--full-diff", "--remerge-diff", "--diff-merges",
)  # fmt: skip
_PATCH_LETTERS = frozenset("puUWcLm")
_NO_PATCH_FLAGS = frozenset(["--color", "--full", "--diff"])
"""Separate flags, or short flags at the beginning of others."""
_SUMMARY_FLAGS = frozenset(
    "-s --no-patch --stat --numstat --shortstat --summary --name-only --name-status --raw "
    "--compact-summary --dirstat --quiet".split()
)
_OBJECT_QUERIES = frozenset("-e -s -t".split())
_GLOBAL_VALUES = frozenset("-C -c --git-dir --work-tree --namespace --exec-path".split())
_MIN_FLAG_CHARS = 3


class Reach(NamedTuple):
    """Files a command reads while naming at most a folder."""

    files: FileSet
    paths: tuple[str, ...] = ()
    """Paths restricting it, or none if nothing restricts it, or if uncertain."""
    names: tuple[str, ...] = ()
    """Patterns for the only names it reads, or none if it reads any name."""
    deep: bool = True
    """Whether it reads what is in folders below, too."""
    certain: bool = False
    """Whether it reads nothing else, even if other words are computed."""


def find_reach(argv: Sequence[str]) -> Reach | None:
    """Return what a command reads without naming it, or None if it is not known to.

    Operands for ``grep`` and ``rg`` are understood, and a git command's paths after ``--``. Others
    do not restrict the result to some folders.
    """
    name, words = program_name(argv[0]), argv[1:]
    if name == "git":
        return _find_git_reach(words)
    if name in _COPIERS or name == "find":
        return _find_shown(words) if name == "find" else _find_copied(name, words)
    if name == "rg" and "--files" not in words:
        return _restrict(Reach(_searched_by_default(name, words)), words, _RG_VALUES)
    if name in _RECURSIVE_SEARCHES:
        return None if "--files" in words else Reach("files")
    if name not in _SEARCHES or not any(map(_is_recursive, words)):
        return None
    return _restrict(Reach("files"), words, _GREP_VALUES) if name in _GREPS else Reach("files")


def find_glob_reach(glob: str) -> Reach:
    """Return the reach of a word replaced by file names in the shell."""
    folder, last = _literal_folder(glob), glob.rpartition("/")[2]
    deep = glob.count("/") > (0 if folder == "." else folder.count("/") + 1)
    files: FileSet = "files" if last.startswith(".") else "visible files"
    return Reach(files, (folder,), (last,) if last else (), deep)


def _find_copied(name: str, words: Sequence[str]) -> Reach | None:
    """Return the folders a program copies or packs as a whole."""
    flags = [word for word in words if word.startswith("-")]
    letters = "".join(word[1:] for word in flags if _is_cluster(word))
    operands = [word for word in words if not word.startswith("-")]
    if name in _PACKERS:
        whole = "c" in letters or "--create" in flags or "c" in "".join(words[:1])
    else:
        whole = bool(set("rRa") & set(letters) or {"--recursive", "--archive"} & set(flags))
        operands = operands[1:] if name == "zip" else operands[:-1] or operands
    return Reach("files", tuple(operands), certain=True) if whole and operands else None


def _find_shown(words: Sequence[str]) -> Reach | None:
    """Return the files ``find`` gives to a program for showing their content."""
    given = [program_name(word) for flag, word in pairwise(words) if flag in _RUNS]
    return find_listed(words) if not _SHOWING.isdisjoint(given) else None


def find_listed(words: Sequence[str]) -> Reach:
    """Return the files listed by ``find``."""
    folders = tuple(takewhile(lambda word: word[:1] not in "-(!", words)) or (".",)
    tests = zip(("", *words), words, (*words[1:], ""), strict=False)
    names = [(before, value) for before, flag, value in tests if flag in ("-name", "-iname")]
    chosen = all(before not in ("!", "-not") for before, _ in names)
    return Reach("files", folders, tuple(value for _, value in names) if chosen else ())


def shows_given_files(argv: Sequence[str]) -> bool:
    """Return whether a command shows the content of files named by its input."""
    return program_name(argv[0]) == "xargs" and not _SHOWING.isdisjoint(map(program_name, argv[1:]))


def _restrict(reach: Reach, words: Sequence[str], valued: frozenset[str]) -> Reach:
    """Return what a search reads, restricted to the paths and the names in its words."""
    flags, operands = _split_flags(words, valued)
    if any(_is_flag(flag, valued) and flag not in valued for flag, _ in flags):
        return reach  # a shortened flag, so its value may be the next word
    has_pattern = any(flag in _PATTERN_FLAGS for flag, _ in flags)
    globs = [value for flag, value in flags if flag in _NAME_FLAGS]
    types = [value for flag, value in flags if flag in ("-t", "--type")]
    names = [glob.rpartition("/")[2] for glob in globs if not glob.startswith("!")]
    names += [f"*.{end}" for kind in types for end in _TYPES.get(kind, "").split()]
    if not _TYPES.keys() >= set(types):
        names = []
    folders = [_literal_folder(path) for path in (operands if has_pattern else operands[1:])]
    return reach._replace(paths=tuple(folders), names=tuple(names))


def _split_flags(
    words: Sequence[str], valued: frozenset[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the flags with their values, and the operands. ``valued`` are flags with a value."""
    flags, operands, rest = list[tuple[str, str]](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return flags, operands + rest
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            at = next((at for at in range(1, len(word)) if f"-{word[at]}" in valued), 0)
            name, value = (f"-{word[at]}", word[at + 1 :]) if at else (word, "")
            equals = value
        if name in valued and not equals:
            value = rest.pop(0) if rest else ""
        flags.append((name, value))
    return flags, operands


def _literal_folder(path: str) -> str:
    """Return the part of a path before the first pattern segment."""
    segments = list(takewhile(lambda part: not set(part) & set("*?[{"), path.split("/")))
    return path if len(segments) == path.count("/") + 1 else "/".join(segments) or "."


def _searched_by_default(name: str, words: Sequence[str]) -> FileSet:
    shows_all = name != "rg" or any(
        word.startswith(_SHOWS_ALL) or (_is_cluster(word) and set("u.gtT") & set(word[1:]))
        for word in words
    )
    return "files" if shows_all else "visible files"


def _is_recursive(word: str) -> bool:
    if _is_cluster(word):
        return bool(set("rRd") & set(word[1:]))
    return _is_flag(word, _RECURSIVE_FLAGS)


def _is_cluster(word: str) -> bool:
    return word[:1] == "-" != word[1:2]


def _is_flag(word: str, flags: Iterable[str]) -> bool:
    """Return whether a word is one of these long flags, perhaps shortened."""
    name = word.partition("=")[0]
    is_long = name.startswith("--") and len(name) >= _MIN_FLAG_CHARS
    return is_long and any(flag.startswith(name) for flag in flags)


def _find_git_reach(words: Sequence[str]) -> Reach | None:
    command, *rest = _skip_global_flags(words) or [""]
    flags, paths = _split_paths(rest)
    if command == "grep":
        anything = any(_is_flag(word, ("--untracked", "--no-index")) for word in flags)
        return Reach("files" if anything else "tracked files", paths)
    if command in ("show", "cat-file") and all(":" in word for word in _operands_only(flags)):
        return None  # it names one file in a commit, or nothing
    if command == "cat-file":
        return None if _OBJECT_QUERIES & set(flags) else Reach("history")
    if not _shows_patch(command, flags):
        return None
    return Reach("tracked files" if _is_about_now(command, flags) else "history", paths)


def _operands_only(flags: Sequence[str]) -> list[str]:
    """Return the words for ``git show`` or ``git cat-file``, or others for unusual flags."""
    return [word for word in flags if word not in ("-p", "blob")] or [""]


def _skip_global_flags(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GLOBAL_VALUES else 1]
    return rest


def _split_paths(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before ``--``, and the paths after it; none if one may be a pattern."""
    at = list(words).index("--") if "--" in words else len(words)
    paths = tuple(words[at + 1 :])
    plain = all(path and not set(path) & set("*?[:\\") for path in paths)
    return list(words[:at]), paths if plain else ()


def _shows_patch(command: str, flags: Sequence[str]) -> bool:
    if command == "status":
        return any(
            "v" in word if _is_cluster(word) else _is_flag(word, ["--verbose"]) for word in flags
        )
    by_flag = any(map(_is_patch_flag, flags))
    if command in _PATCH_BY_DEFAULT:
        return by_flag or not any(word.partition("=")[0] in _SUMMARY_FLAGS for word in flags)
    shown = command in _PATCH_BY_FLAG or (command == "stash" and flags[:1] in (["show"], ["list"]))
    return shown and by_flag


def _is_patch_flag(word: str) -> bool:
    if _is_cluster(word):
        return bool(_PATCH_LETTERS & set(word[1:]))
    return _is_flag(word, _PATCH_FLAGS) and word.partition("=")[0] not in _NO_PATCH_FLAGS


def _is_about_now(command: str, flags: Sequence[str]) -> bool:
    """Return whether a git command compares only files, the index and the last commit."""
    return command in _TRACKED_ONLY and all(
        word.startswith("-") or word in ("HEAD", "@") for word in flags
    )
