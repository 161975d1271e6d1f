"""Names of arguments and of tools models know from other programs, as data.

A synonym has one reading here. A name with several readings has no entry: the message for an
unknown field then suggests one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

Fields: TypeAlias = Mapping[str, Any]
Synonyms: TypeAlias = Mapping[str, str | Callable[[Fields], Fields | None]]

_MIN_CERTAIN_MS = 10_000
"""A timeout from here on means milliseconds: in seconds, it would be longer than any allowed."""
_SHELLS = frozenset("bash sh zsh /bin/bash /bin/sh /bin/zsh /usr/bin/bash".split())
_SHELL_OPTIONS = frozenset("-c -lc -cl".split())


def _ignore(_args: Fields) -> Fields:
    """Read a field that changes nothing."""
    return {}


def _read_timeout(args: Fields) -> Fields | None:
    """Read a timeout only if it cannot be meant in seconds."""
    given = args["timeout"]
    certain = type(given) is int and given >= _MIN_CERTAIN_MS
    return {"timeout_ms": given} if certain else None


def _read_command(args: Fields) -> Fields | None:
    """Read a list such as ``["bash", "-lc", "ls"]`` as the command the shell would run."""
    given: Any = args["command"]
    match given:
        case [str(shell), str(option), str(command)]:
            known = shell in _SHELLS and option in _SHELL_OPTIONS
            return {"command": command} if known else None
        case _:
            return None


def _read_restart(args: Fields) -> Fields | None:
    """Read a restart without a command."""
    alone = args["restart"] is True and args.keys().isdisjoint(("command", "cmd", "script"))
    return {"restart": True, "command": ""} if alone else None


def _read_line_numbers(args: Fields) -> Fields | None:
    """Read a wish for line numbers, which are always shown."""
    return {} if args["-n"] is True else None


def _read_output_mode(args: Fields) -> Fields | None:
    """Read the output mode with the name other tools use."""
    return {"output_mode": "files"} if args["output_mode"] == "files_with_matches" else None


def _each(names: str, meaning: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), meaning)


def list_objects(given: object) -> list[dict[str, Any]] | None:
    """Return a value if it is a list of objects."""
    if not isinstance(given, list):
        return None
    items = cast("list[object]", given)
    return (
        cast("list[dict[str, Any]]", items) if all(isinstance(one, dict) for one in items) else None
    )


_FILE = _each("path filename file filepath absolute_path", "file_path")
_FOLDER = _each("directory dir_path dir folder", "path")
_OLD = _each("old_str old_text oldString", "old_string")
_NEW = _each("new_str new_text newString", "new_string")
_REPLACEMENT = {**_OLD, **_NEW}


def _read_edits(args: Fields) -> Fields | None:
    """Read a list of replacements without a first one, or with other names in it."""
    given = list_objects(args["edits"])
    if not given:
        return None
    renamed = [{_REPLACEMENT.get(name, name): one[name] for name in one} for one in given]
    if any(len(new) < len(old) for new, old in zip(renamed, given, strict=True)):
        return None  # one field under two names
    if {"old_string", "new_string", "replace_all"}.isdisjoint(args):
        return {**renamed[0], **({"edits": renamed[1:]} if renamed[1:] else {})}
    return {"edits": renamed} if renamed != given else None


READ_SYNONYMS: Synonyms = {**_FILE, **_each("start_line line_offset", "offset")}
WRITE_SYNONYMS: Synonyms = {**_FILE, **_each("contents text file_text", "content")}
EDIT_SYNONYMS: Synonyms = {
    **_FILE,
    **_REPLACEMENT,
    "replaceAll": "replace_all",
    "edits": _read_edits,
}
GLOB_SYNONYMS: Synonyms = {**_FOLDER, "glob_pattern": "pattern", "head_limit": "limit"}
GREP_SYNONYMS: Synonyms = {
    **_FOLDER,
    **_each("query regex search", "pattern"),
    **_each("include include_pattern glob_pattern", "glob"),
    **_each("head_limit max_results", "limit"),
    **_each("-i case_insensitive", "ignore_case"),
    "-A": "after",
    "-B": "before",
    "-C": "context",
    "-F": "fixed_strings",
    "-n": _read_line_numbers,
    "output_mode": _read_output_mode,
}
BASH_SYNONYMS_WITHOUT_JOBS: Synonyms = {
    **_each("cmd script", "command"),
    "timeout": _read_timeout,
    "description": _ignore,
    "command": _read_command,
    "restart": _read_restart,
}
BASH_SYNONYMS: Synonyms = {
    **BASH_SYNONYMS_WITHOUT_JOBS,
    **_each("run_in_background is_background", "background"),
}

_EDITORS = "str_replace_editor str_replace_based_edit_tool"
READ_INSTEAD_OF = {
    **_each("ls list_dir list_directory list_files", "list a folder"),
    **_each(f"view cat read_file open_file read_many_files notebookread {_EDITORS}", "read a file"),
}
WRITE_INSTEAD_OF = _each(f"write_file create_file create save_file {_EDITORS}", "create a file")
EDIT_INSTEAD_OF = _each(
    "apply_patch multi_edit multiedit str_replace replace edit_file search_replace insert "
    f"notebookedit {_EDITORS}",
    "change a file",
)
GLOB_INSTEAD_OF = _each("find find_files file_search glob_file_search", "find files")
GREP_INSTEAD_OF = _each(
    "rg search search_files grep_search search_file_content codebase_search",
    "search file contents",
)
BASH_INSTEAD_OF = _each(
    "shell run_shell_command local_shell exec exec_command execute_command run_command "
    "run_terminal_cmd terminal powershell container.exec",
    "run a command",
)
READ_JOB_INSTEAD_OF = _each(
    "bashoutput bash_output taskoutput write_stdin", "read the output of a job"
)
STOP_JOB_INSTEAD_OF = _each("killshell kill_shell killbash", "stop a job")
WEB_FETCH_INSTEAD_OF = _each(
    "websearch web_search google_web_search webfetch fetch browser url_context",
    "fetch a web page by its URL",
)
ASK_USER_INSTEAD_OF = _each(
    "askuserquestion ask_user_question ask_followup_question request_user_input", "ask the user"
)
TODO_INSTEAD_OF = _each(
    "todowrite todo_write write_todos update_plan todoread todo_read", "keep a plan"
)
