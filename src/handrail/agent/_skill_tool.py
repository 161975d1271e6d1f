"""The tool that loads a skill, when a model asks for it: its instructions, or one of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

from handrail import READ, Access, Refused, ToolFailed, Toolset, tool
from handrail.agent._files import MOST_PATH, NotRead, Trusted, agreed, text_of
from handrail.agent._frontmatter import parsed
from handrail.agent._package import FILE, Package, digest, file_of, package
from handrail.agent._wrap import one_line, wrapped

MOST_BYTES = 262_144
"""Of a file that is shown."""
_MOST_CHARS = 100_000
_SOME = 20


class Source(NamedTuple):
    """Where a skill is, and who is asked whether it is trusted; nobody for a user's own."""

    root: str
    path: str
    trusted: Trusted | None


def skill_tool(sources: Mapping[str, Source]) -> Toolset:
    """The tool for these skills; where there are none, none."""
    if not sources:
        return Toolset()

    def touches(name: str, file: str, **_: object) -> tuple[Access, ...]:
        source = sources[name]
        if source.trusted is None:
            return (Access(READ, f"skill:{name}"),)
        whole = f"file:{source.path}"
        return (Access(READ, whole), Access(READ, f"{whole}/{file or FILE}"))

    def skill(name: Any, file: str = "") -> str:
        """Load a skill: instructions for a certain kind of task.

        Call it before you begin a task that fits the description of a skill. Once it is loaded,
        do not load it again.

        Args:
            name: Which skill.
            file: One of the files that the skill lists, to see that file. Leave it out to load
                the instructions, which name the files.
        """
        source = sources[name]
        try:
            looked = _looked(name, source)
            return _file(name, source, looked, file) if file else _body(name, source, looked)
        except NotRead as reason:
            what = f"The file {file!r} of the skill" if file else "The skill"
            raise ToolFailed(
                f"{what} {name!r} cannot be shown: {reason}. Go on without it, and tell the user."
            ) from None

    skill.__annotations__["name"] = _one_of(tuple(sources))
    made = tool(effect=READ, touches=touches, timeout=30.0, max_chars=_MOST_CHARS)
    return Toolset(made(cast("Callable[..., str]", skill)))


def _one_of(names: tuple[str, ...]) -> Any:
    return cast("Any", Literal)[names]


def _looked(name: str, source: Source) -> Package:
    """What is there now; refused where it is not what somebody trusts."""
    looked = package(source.root, source.path)
    if source.trusted and not agreed(source.trusted, source.path, looked.record):
        raise Refused(
            f"The skill {name!r} is not trusted as it is now: it has changed since somebody looked "
            "at it, or the trust was taken back. Tell the user."
        )
    return looked


def _body(name: str, source: Source, looked: Package) -> str:
    told = wrapped("skill", parsed(text_of(looked.skill)).body, name=name, folder=_where(source))
    if not looked.files:
        return told
    files = "\n".join(f"- {shown}" for shown in _shown(looked.files))
    return f'{told}\nFiles of this skill. To see one, call skill with "file":\n{files}'


def _file(name: str, source: Source, looked: Package, file: str) -> str:
    """A file out of those that are there: what a model sends never becomes a path."""
    found = _shown(looked.files).get(file)
    if found is None:
        some = ", ".join(map(repr, list(_shown(looked.files))[:_SOME])) or "none"
        raise ToolFailed(f"The skill {name!r} has no file {file!r}. Its files: {some}.")
    data = file_of(source.root, source.path, found, MOST_BYTES)
    if digest(data) != looked.files[found]:
        raise NotRead("it has changed just now")
    text = text_of(data).replace("\r\n", "\n").strip("\n")
    return wrapped("skill-file", text, name=name, file=file)


def _shown(files: Iterable[str]) -> dict[str, str]:
    """The files by how they are shown, since a model can only send what it sees."""
    return {one_line(file, MOST_PATH): file for file in files}


def _where(source: Source) -> str:
    """The folder as a model may know it: nothing of where a user keeps what is theirs."""
    return source.path if source.trusted else f"of the user/{source.path}".rstrip("/")
