"""What must keep working without a question; a policy that asks about everything is no answer."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handrail import (
    READ,
    Access,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Spec,
    Tool,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import callback, render_request, view_request
from handrail.permissions import Pending
from handrail.policy import Rulebook, builtin_rules
from vectors.stage import bash, line, ran, rules, save, tried

READING = builtin_rules("read_only")
DEVELOPING = builtin_rules("read_only", "development")
FOR_DEVELOPERS = {"benign-031", "benign-034", "benign-035", "benign-036"}
IN_A_SANDBOX = {"benign-032", "benign-033"}
"""Programs that stand in the line itself: free where a sandbox holds them."""

Policy = Callable[[CheckedCall], Decision]
Make = Callable[..., Policy]


class Files:
    """Minimal tools for files in a workspace, which really read and write them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @tool(effect=READ, touches=lambda path, **_: reads_file(path))
    async def read(self, path: str, offset: int = 0, limit: int = 1_000) -> str:
        """Read lines of a file."""
        ran.append(path)
        lines = self._text(path).splitlines()
        return "\n".join(lines[offset : offset + limit])

    @tool(touches=lambda path, **_: writes_file(path))
    async def write(self, path: str, content: str = "x\n") -> str:
        """Write a file."""
        ran.append(path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(content, encoding="utf-8")
        return "written"

    @tool(touches=lambda path, **_: (reads_file(path), writes_file(path)))
    async def edit(self, path: str, old: str = "one", new: str = "one") -> str:
        """Change a file."""
        ran.append(path)
        content = self._text(path)
        if content.count(old) != 1:
            raise ValueError(old)
        (self.root / path).write_text(content.replace(old, new), encoding="utf-8", newline="")
        return "edited"

    @tool(effect=READ, touches=lambda **_: reads_file("."))
    async def glob(self, pattern: str) -> str:
        """Find files."""
        ran.append(pattern)
        return "\n".join(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    @tool(effect=READ, touches=lambda **_: reads_file("."))
    async def grep(self, pattern: str) -> str:
        """Find lines."""
        ran.append(pattern)
        texts = (path.read_text("utf-8") for path in self.root.glob("**/*.py"))
        return "\n".join(one for text in texts for one in re.findall(pattern, text))

    def _text(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()


def _workspace(root: Path) -> Path:
    real = root / "real"
    (real / "src").mkdir(parents=True)
    (real / "ok").write_text("one\ntwo\n", encoding="utf-8")
    (real / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (real / "-n 文.txt").write_text("one\n", encoding="utf-8")
    (real / "l").symlink_to("ok")
    (real / "src" / "a.py").write_text("def one(): ...\n", encoding="utf-8")
    (root / "link").symlink_to(real)
    return real


def _file_works(vector: dict[str, Any], make: Make) -> bool:
    """Whether a tool for files does its work; what changes a file, in the mode for that."""
    [name] = vector["tools"]
    with tempfile.TemporaryDirectory() as folder:
        root = _workspace(Path(folder))
        if vector["id"] == "benign-028":
            root = Path(folder) / "link"
        policy = make(DEVELOPING, mode="edits" if name in {"write", "edit"} else "ask")
        outcome = tried(policy, Call(name, vector["input"], "1"), Toolset.from_object(Files(root)))
    return outcome.allowed and not any(one.failure for one in outcome.results)


@tool(effect=READ, touches=lambda url: Access(READ, f"net:{url.split('/')[2]}"))
async def web_fetch(url: str) -> str:
    """Fetch a page; here it is only noted."""
    ran.append(url)
    return url


def _fetch_works(_vector: dict[str, Any], make: Make) -> bool:
    """A page of a host that a rule allows; where it leads to on that host is the same access."""
    allowed = rules('[[rule]]\ndecide = "allow"\naccess = "read net:pub.test"')
    policy = make((*DEVELOPING, *allowed), mode="ask")
    pages = ["http://pub.test/", "http://pub.test/moved"]
    calls = [Call("web_fetch", {"url": page}, "1") for page in pages]
    return all(tried(policy, call, Toolset(web_fetch)).allowed for call in calls)


async def _echo(args: dict[str, Any], _context: Context) -> str:
    ran.append(str(args["text"]))
    return str(args["text"])


ECHO = Tool.remote(
    Spec(
        name="echo",
        description="Say it again.",
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
    ),
    _echo,
)


def _remote_works(_vector: dict[str, Any], make: Make) -> bool:
    """A tool from elsewhere that a rule allows."""
    allowed = rules('[[rule]]\ndecide = "allow"\ntools = "echo"')
    policy = make(allowed, mode="ask")
    return tried(policy, Call("echo", {"text": "hi"}, "1"), Toolset(ECHO)).allowed


def _prompt_works(vector: dict[str, Any], make: Make) -> bool:
    """Letters of any script are shown as they are, and a yes to them counts, once asked."""
    text, shown = vector["input"]["text"] + " 🙂", list[str]()

    def person(pending: Pending) -> bool:
        shown.append("\n".join(row.text for row in render_request(pending).lines))
        return not view_request(pending).hidden

    call = Call("save", {"path": text}, "1")
    outcome = tried(make((), mode="ask"), call, Toolset(save), approvals=callback(person))
    return len(outcome.ran) == len(shown) == 3 and all(text in one for one in shown)


OTHERS: dict[str, Callable[[dict[str, Any], Make], bool]] = {
    **{f"benign-0{number}": _file_works for number in range(21, 31)},
    "benign-037": _fetch_works,
    "benign-038": _fetch_works,
    "benign-039": _remote_works,
    "benign-040": _prompt_works,
}


def holds(vector: dict[str, Any], make: Make = Rulebook) -> bool:
    """Whether it works without a question."""
    name = vector["id"]
    if name in OTHERS:
        return OTHERS[name](vector, make)
    if name in IN_A_SANDBOX:
        policy = make(DEVELOPING, mode="open", sandboxed=True)
    else:
        policy = make(DEVELOPING if name in FOR_DEVELOPERS else READING, mode="ask")
    return line(policy, vector["input"]["command"], tools=Toolset(bash)).allowed


def cautious(*_rules: Any, **_options: Any) -> Policy:
    """The control: safe, and of no use; what it asks about cannot be seen."""
    return lambda *_: Ask("May it run?\u200b")


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors a policy that always asks does not let work."""
    return sum(not holds(vector, cautious) for vector in vectors)
