"""A process of its own in which somebody else acts at chosen moments of a change.

Between two steps of a change there are microseconds, and in them an editor may save. Python tells
its profiler of every step, and so it is possible to act just then. Given a folder, prints for each
scenario what was said, what is there, and which moment never came.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from handrail import Call, Executor
from handrail.tools import Workspace
from tools.stage import toolset

acts: dict[str, Callable[[], object]] = {}
"""What is still to be done, by the moment at which to do it."""
exchanged = 0
"""How often two files have changed places, or are about to."""


def profiled(frame: FrameType, event: str, arg: Any) -> None:
    global exchanged  # noqa: PLW0603
    moment = ""
    if frame.f_code.co_name == "exchange" and event in ("call", "return"):
        exchanged += event == "call"
        moment = f"{'before' if event == 'call' else 'after'}_{exchanged}"
    elif event == "c_call" and arg is os.link:
        moment = "link"
    act = acts.pop(moment, None)
    if act is not None:
        act()


def scenario(root: Path, name: str, args: dict[str, str], **meanwhile: Callable[[], object]) -> Any:
    """What a model reads, what there is, and which moments never came."""
    global exchanged  # noqa: PLW0603
    exchanged = 0
    acts.clear()
    acts.update(meanwhile)
    tools = toolset(Workspace(root))
    done = Executor(tools).run_sync(Call(name, {"file_path": "f", **args}, "c1"))
    return done.text, {one.name: shown(one) for one in sorted(root.iterdir())}, sorted(acts)


def shown(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return path.read_text(encoding="utf-8") if path.is_file() else "folder"


def saves(root: Path, content: str) -> Callable[[], None]:
    """An editor that saves as most do: a new file takes the name."""

    def save() -> None:
        (root / "swap").write_text(content, encoding="utf-8")
        (root / "swap").rename(root / "f")

    return save


def main(folder: str) -> None:
    told: dict[str, Any] = {}
    edit = {"old_string": "old", "new_string": "new"}

    def tried(title: str, name: str = "edit", *, there: bool = True, **meanwhile: Any) -> None:
        root = Path(folder) / title.replace(" ", "-")
        root.mkdir()
        if there:
            (root / "f").write_text("old", encoding="utf-8")
        args = edit if name == "edit" else {"content": "new"}
        made = {moment: act(root) for moment, act in meanwhile.items()}
        told[title] = scenario(root, name, args, **made)

    def saving(content: str) -> Callable[[Path], Callable[[], None]]:
        return lambda root: saves(root, content)

    def removing(root: Path) -> Callable[[], None]:
        return (root / "f").unlink

    def linking(root: Path) -> Callable[[], None]:
        return lambda: (removing(root)(), (root / "f").symlink_to("elsewhere"))

    def foldering(root: Path) -> Callable[[], None]:
        return lambda: (removing(root)(), (root / "f").mkdir())

    threading.setprofile(profiled)
    theirs, newer, newest = saving("theirs"), saving("newer"), saving("newest")
    tried("nobody else")
    tried("saved after the check", before_1=theirs)
    tried("saved just the same", before_1=saving("old"))
    tried("saved and saved again", before_1=theirs, after_1=newer)
    tried("saved again and again", before_1=theirs, after_1=newer, after_2=newest)
    tried("saved and then removed", before_1=theirs, after_1=removing)
    tried("removed after the check", before_1=removing)
    tried("a link took its place", before_1=linking)
    tried("a folder took its place", before_1=foldering)
    tried("made by somebody else at the last moment", "write", there=False, link=saving("theirs"))
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
