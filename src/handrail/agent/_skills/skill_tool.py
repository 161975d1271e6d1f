"""The tool with which a model loads a skill's instructions or one of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

from handrail import READ, Access, Refused, ToolFailed, Toolset, tool
from handrail.agent._found_files import (
    MAX_PATH_CHARS,
    FolderReader,
    IsTrusted,
    NotRead,
    decode_text,
    is_trusted,
)
from handrail.agent._skills.skill_folder import (
    SKILL_FILE,
    SkillFolder,
    file_digest,
    read_skill_folder,
    split_skill,
)
from handrail.agent._tagged_text import to_one_line, wrap_in_tag

MAX_FILE_BYTES = 262_144
"""Bytes of a file the tool shows."""
_MAX_RESULT_CHARS = 100_000
_MAX_NAMED_FILES = 20
_FILES = (
    'Files of this skill. To read one, call skill with "file". '
    "To run one, write the folder before its name:"
)


class SkillSource(NamedTuple):
    """A skill's location, and the trust check. The user's own skills have none."""

    reader: FolderReader
    path: str
    trusted: IsTrusted | None

    @property
    def folder(self) -> str:
        """The folder, for commands: relative to the workspace, or absolute and without links."""
        return self.path if self.trusted else self.reader.locate(self.path)


def skill_tool(sources: Mapping[str, SkillSource]) -> Toolset:
    """Return the tool for these skills, or no tool if there are none."""
    if not sources:
        return Toolset()

    def touches(name: str, file: str, **_: object) -> tuple[Access, ...]:
        source = sources[name]
        if source.trusted is None:
            return (Access(READ, f"skill:{name}"),)
        inside = f"{source.path}/{file or SKILL_FILE}"
        paths = (source.path, inside, source.reader.resolve_links(inside))
        return tuple(Access(READ, f"file:{path}") for path in dict.fromkeys(paths))

    def skill(name: Any, file: str = "") -> str:
        """Load a skill: instructions for a specific kind of task.

        Call it before you start a task that matches a skill's description. Load each skill once.

        Args:
            name: Name of the skill.
            file: A file the skill lists, to read it. Omit to load the instructions.
        """
        source = sources[name]
        try:
            folder = _load_folder(name, source)
            return (
                _format_file(name, source, folder, file)
                if file
                else _format_body(name, source, folder)
            )
        except NotRead as reason:
            what = f"the file {file!r} of the skill" if file else "the skill"
            raise ToolFailed(
                f"Cannot load {what} {name!r}: {reason}. Continue without it, and tell the user."
            ) from None

    skill.__annotations__["name"] = literal_type(sources)
    define = tool(effect=READ, touches=touches, timeout=30.0, max_chars=_MAX_RESULT_CHARS)
    return Toolset(define(cast("Callable[..., str]", skill)))


def literal_type(names: Iterable[str]) -> Any:
    """Return a parameter type accepting these names."""
    return cast("Any", Literal)[tuple(names)]


def _load_folder(name: str, source: SkillSource) -> SkillFolder:
    """Read the current folder. Raises Refused if it is not what the user trusted."""
    folder = read_skill_folder(source.reader, source.path)
    if source.trusted and not is_trusted(source.trusted, source.path, folder.record):
        raise Refused(
            f"Not loaded: the skill {name!r} is not trusted, or changed since the user trusted it. "
            "Do not work around this; tell the user."
        )
    return folder


def _format_body(name: str, source: SkillSource, folder: SkillFolder) -> str:
    body = split_skill(decode_text(folder.skill)).body
    text = wrap_in_tag("skill", body, name=name, folder=source.folder)
    if not folder.files:
        return text
    files = "\n".join(f"- {file}" for file in _files_by_display_name(folder.files))
    return f"{text}\n{_FILES}\n{files}"


def _format_file(name: str, source: SkillSource, folder: SkillFolder, file: str) -> str:
    """Format one of the skill's files. The text a model sends is never used as a path."""
    path = _files_by_display_name(folder.files).get(file)
    if path is None:
        names = list(_files_by_display_name(folder.files))[:_MAX_NAMED_FILES]
        available = ", ".join(map(repr, names)) or "none"
        raise ToolFailed(f"The skill {name!r} has no file {file!r}. Available files: {available}.")
    inside = f"{source.path}/{path}"
    if path != file and source.reader.resolve_links(inside) != inside:
        raise NotRead("a link whose name has unusual characters")  # `touches` did not follow it
    data = source.reader.read(inside, MAX_FILE_BYTES)
    if file_digest(data) != folder.files[path]:
        raise NotRead("it changed while it was read")
    text = decode_text(data).replace("\r\n", "\n").strip("\n")
    return wrap_in_tag("skill-file", text, name=name, file=file)


def _files_by_display_name(files: Iterable[str]) -> dict[str, str]:
    """Map each file's displayed name to its path. A model can send only what it sees."""
    return {to_one_line(file, MAX_PATH_CHARS): file for file in files}
