"""Paths that lead out of the workspace: by their spelling, by links, by odd files.

Each vector goes through the tools themselves and an executor, with both ways to open files. What is
looked at is a canary around the workspace: nothing of it is in a result, and nothing there changes.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import glob as all_like
from pathlib import Path
from typing import Any, NamedTuple

from handrail import READ, Allow, FailureKind, Result, ToolFailed, Toolset, tool
from handrail.permissions import Pending
from handrail.policy import Rulebook
from handrail.tools import Workspace, edit, glob, grep, hide_denied, read, write
from tools.files.test_openat import OPENERS
from tools.stage import Opener, kind, results, tree
from vectors.stage import rules

DENIES = {
    "path-060": '[[rule]]\ndecide = "deny"\naccess = "read|write file:secret.env"',
    "path-079": '[[rule]]\ndecide = "deny"\naccess = "read file:**/.env"',
    "path-080": '[[rule]]\ndecide = "deny"\naccess = "read file:**/.env"',
}
UNSEEN = {"path-079": "K=1", "path-080": ".env"}
"""What of a denied file must not be in a result: its content, its name."""
ALSO = {
    "path-061": {FailureKind.FAILED},  # whoever may not enter the folder learns no more than that
    "path-069": {FailureKind.FAILED},  # to read what is not there
    "path-070": {FailureKind.BAD_ARGS},  # a model has no say in where the root is
    "path-072": {FailureKind.FAILED},  # there are no such patterns
    "path-073": {FailureKind.FAILED},
    "path-076": {FailureKind.FAILED},
}
MORE = {
    "path-060": [{"file": "secret.env", "content": "SECRET"}],
    "path-081": [{"file": "ok", "content": "x"}, {"dir": "d"}],
}
"""What a vector takes for granted."""
DOCUMENTED = {"path-048", "path-062", "path-068"}
PAGE = Path(__file__).parents[2] / "docs/coding/read.md"


class Ground(NamedTuple):
    """A workspace, with a canary in the folder around it."""

    out: Path
    root: Path
    token: str

    def filled(self, text: str) -> str:
        """A text of a vector, with this ground's paths."""
        for name, value in {
            "{WS}": str(self.root),
            "{WSNAME}": self.root.name,
            "{OUT}": str(self.out),
            "{PPID}": str(os.getppid()),
            "{LONG255+1}": "x" * 256,
            "{4097 bytes}": "x/" * 2048 + "x",
        }.items():
            text = text.replace(name, value)
        return "/".join(["a"] * 3_000) if text.endswith("a/...") else text

    def path(self, name: str) -> Path:
        return self.root / self.filled(name)

    def canary(self) -> dict[str, Any]:
        return tree(self.out, without=self.root)


def _links(ground: Ground, step: dict[str, str]) -> None:
    if step["symlink"] == "h0..h40":
        for number in range(41):
            ground.path(f"h{number}").symlink_to(f"h{number + 1}" if number < 40 else "ok")
        return
    ground.path(step["symlink"]).symlink_to(ground.filled(step["to"]))


def _device(ground: Ground, step: dict[str, str]) -> None:
    like = os.stat(step["like"])  # noqa: PTH116
    try:
        os.mknod(ground.path(step["chardev"]), stat.S_IFCHR | 0o666, like.st_rdev)
    except PermissionError:  # who may make no devices gets a pipe
        os.mkfifo(ground.path(step["chardev"]))


def _file(ground: Ground, step: dict[str, str]) -> None:
    path = ground.path(step["file"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(step["content"].replace("SECRET", ground.token), encoding="utf-8")


def _socket(ground: Ground, step: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(ground.path(step["socket"])))


def _shell(ground: Ground, step: dict[str, str]) -> None:
    line = ground.filled(step["run_in_bash"])
    subprocess.run(["bash", "-c", line], cwd=ground.root, check=True)  # noqa: S603, S607


STEPS: dict[str, Callable[[Ground, dict[str, str]], object]] = {
    "file": _file,
    "symlink": _links,
    "chardev": _device,
    "socket": _socket,
    "run_in_bash": _shell,
    "dir": lambda ground, step: ground.path(step["dir"]).mkdir(exist_ok=True),
    "hardlink": lambda ground, step: ground.path(step["hardlink"]).hardlink_to(
        ground.filled(step["to"])
    ),
    "fifo": lambda ground, step: os.mkfifo(ground.path(step["fifo"])),
}


def prepared(vector: dict[str, Any], out: Path) -> Ground:
    """The fixture of a vector."""
    ground = Ground(out, out / "ws", f"SECRET-{secrets.token_hex(8)}")
    ground.root.mkdir()
    (out / f"canary-{ground.token}").write_text(ground.token, encoding="utf-8")
    steps = [*vector["setup"], *MORE.get(vector["id"], ())]
    if "setup" in vector["input"]:
        name, _, target = vector["input"]["setup"].partition(" -> ")
        steps.append({"symlink": name, "to": target})
    for step in steps:
        made = STEPS.get(next(iter(step)))
        if made:  # a folder is closed when all is in it, and what is mounted is mounted later
            made(ground, step)
    for step in steps:
        if "dir_mode_000" in step:
            ground.path(step["dir_mode_000"]).chmod(0)
    return ground


Make = Callable[[str, Ground, Opener, "Rulebook | None"], Toolset]
TOOLS = {"read": read, "write": write, "edit": edit, "glob": glob, "grep": grep}


def real(name: str, ground: Ground, opener: Opener, policy: Rulebook | None) -> Toolset:
    """A tool of this project, and read, since what is written must have been read."""
    hides = hide_denied(policy) if policy else None
    workspace = Workspace(ground.root, opener=opener, hides=hides)
    return Toolset(*(TOOLS[one](workspace) for one in {"read", name}))


def call(name: str, vector: dict[str, Any], ground: Ground) -> tuple[str, dict[str, Any]]:
    """A call that does what a vector says."""
    given = {key: value for key, value in vector["input"].items() if key != "setup"}
    args = {key: ground.filled(one) if isinstance(one, str) else one for key, one in given.items()}
    if name in ("glob", "grep"):
        pattern = "**/*" if name == "glob" else "."
        return name, {"pattern": pattern, "hidden": True, "include_ignored": True, **args}
    args["file_path"] = args.pop("path")
    old = "x" if vector["expected"] == "allow" else ground.token
    more = {"write": {"content": "PWNED"}, "edit": {"old_string": old, "new_string": "PWNED"}}
    return name, {**args, **more.get(name, {})}


async def agrees(_pending: Pending) -> Allow:
    """Somebody who lets a search begin at the root, whatever is denied below."""
    return Allow()


def holds(vector: dict[str, Any], make: Make = real) -> bool:
    """Whether a path stays inside, or is refused, by every tool and both ways."""
    if vector["id"] == "path-068":
        return _mounted_is_inside(vector)
    return all(_holds(vector, name, opener, make) for name in vector["tools"] for opener in OPENERS)


def _holds(vector: dict[str, Any], name: str, opener: Opener, make: Make) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        ground = prepared(vector, Path(folder))
        text = DENIES.get(vector["id"])
        policy = Rulebook(rules(text), mode="edits") if text else None
        if vector["id"] == "path-069":
            policy = Rulebook(mode="edits")
        before, inside = ground.canary(), tree(ground.root)
        first, done = results(
            make(name, ground, opener, policy),
            call("read", {**vector, "input": {"path": "nothing", **vector["input"]}}, ground),
            call(name, vector, ground),
            policy=policy,
            approvals=agrees if vector["id"] in UNSEEN else None,
        )
        kept = ground.canary() == before
        same = tree(ground.root) == inside
        with suppress(OSError):
            ground.path("d").chmod(0o700)
        told = f"{first}{done}" if vector["id"] not in {"path-062", "path-063"} else ""
        quiet = not any(one in told for one in _secrets(vector, ground))
        return kept and quiet and _as_expected(vector, name, done, same=same)


def _secrets(vector: dict[str, Any], ground: Ground) -> list[str]:
    """What must not be in a result."""
    return [ground.token, "root:x:0:0", UNSEEN.get(vector["id"], ground.token)]


FOLDERS = frozenset(("path-016", "path-067"))
"""Paths of folders in the workspace, which `read` lists."""


def _as_expected(vector: dict[str, Any], name: str, done: Result, *, same: bool) -> bool:
    expected, found = vector["expected"], kind(done)
    if expected == "deny":
        return same and found in {FailureKind.DENIED, *ALSO.get(vector["id"], ())}
    if name == "read" and vector["id"] in FOLDERS:
        return same and found is None
    if expected == "error":
        return same and found in {FailureKind.FAILED, FailureKind.BAD_ARGS}
    if expected == "allow":  # glob is for folders, and says so of a file
        went = found is None or (name == "glob" and found is FailureKind.FAILED)
        return went and same == (name not in ("write", "edit"))
    if vector["id"] in DOCUMENTED:
        return found in {None, FailureKind.DENIED, FailureKind.FAILED} and _documented(vector)
    return found in {None, FailureKind.FAILED}


def _documented(vector: dict[str, Any]) -> bool:
    says = {"path-048": "absolute", "path-062": "hard link", "path-068": "mounted"}
    return says[vector["id"]] in PAGE.read_text(encoding="utf-8")


IN_A_NAMESPACE = """
import json, sys
from pathlib import Path
from handrail import Call, Executor, Toolset
from handrail.tools import Workspace, read
done = Executor(Toolset(read(Workspace(sys.argv[1])))).run_sync(Call("read", {"file_path": "m/secret"}, "1"))
print(json.dumps(done.text))
"""


def _mounted_is_inside(vector: dict[str, Any]) -> bool:
    """What was mounted into the workspace is in the workspace, and the page says so."""
    with tempfile.TemporaryDirectory() as folder:
        ground = prepared(vector, Path(folder))
        ground.path("m").mkdir()
        before = ground.canary()
        script = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$5"'
        where = [str(ground.out), str(ground.path("m")), sys.executable, IN_A_NAMESPACE]
        done = _unshared(script, [*where, str(ground.root)])
        text = json.loads(done.stdout) if done.returncode == 0 else ""
        return (
            text == f"     1\t{ground.token}" and ground.canary() == before and _documented(vector)
        )


def _unshared(script: str, args: Sequence[str]) -> subprocess.CompletedProcess[str]:
    program = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *args]
    return subprocess.run(program, capture_output=True, encoding="utf-8", check=False)  # noqa: S603


def _may_mount() -> bool:
    return bool(shutil.which("unshare")) and not _unshared("true", []).returncode


SKIPPED = {} if _may_mount() else {"path-068": "nothing can be mounted here: no user namespaces"}


# ---------------------------------------------------------------- the control


class Joined(NamedTuple):
    """The control's way to files: joined, normalised as text, and compared with the root as text."""

    root: str

    def checked(self, path: str) -> str:
        meant = os.path.expandvars(os.path.expanduser(path))  # noqa: PTH111
        full = os.path.normpath(os.path.join(self.root, meant))  # noqa: PTH118
        if not full.startswith(self.root):
            raise ToolFailed("outside")
        return full

    def content(self, path: str) -> str:
        try:
            fd = os.open(self.checked(path), os.O_RDONLY | os.O_NONBLOCK)
            with open(fd, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return file.read(10_000)
        except (OSError, ValueError) as error:
            raise ToolFailed("not read") from error

    def put(self, path: str, text: str) -> str:
        try:
            fd = os.open(self.checked(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK)
            with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(text)
        except (OSError, ValueError) as error:
            raise ToolFailed("not written") from error
        return "written"

    def named(self, path: str, pattern: str) -> list[str]:
        with suppress(OSError, ValueError):
            folder = Path(self.root, path)
            if folder.is_dir() and len(folder.resolve().parts) > 2:
                return all_like(pattern, root_dir=folder, recursive=True, include_hidden=True)  # noqa: PTH207
        return []


def naive(_name: str, ground: Ground, _opener: Opener, _policy: Rulebook | None) -> Toolset:
    """The control."""
    files = Joined(str(ground.root))

    @tool(name="read", effect=READ)
    def reads(file_path: str, cwd: str = "") -> str:
        """Read."""
        return files.content(f"{cwd}/{file_path}" if cwd else file_path)

    @tool(name="write")
    def writes(file_path: str, content: str, cwd: str = "") -> str:
        """Write."""
        return files.put(f"{cwd}/{file_path}" if cwd else file_path, content)

    @tool(name="edit")
    def edits(file_path: str, old_string: str, new_string: str) -> str:
        """Edit."""
        return files.put(file_path, files.content(file_path).replace(old_string, new_string))

    @tool(name="glob", effect=READ)
    def globs(pattern: str, path: str = ".", *, hidden: bool, include_ignored: bool) -> str:
        """Find."""
        return "\n".join(files.named(path, pattern))

    @tool(name="grep", effect=READ)
    def greps(pattern: str, path: str = ".", *, hidden: bool, include_ignored: bool) -> str:
        """Search."""
        found = []
        for name in [*files.named(path, "**/*"), ""]:
            with suppress(OSError, ValueError):
                text = (ground.root / path / name).read_text(encoding="utf-8", errors="replace")
                found += [line for line in text.splitlines() if re.search(pattern, line)]
        return "\n".join(found[:1_000])

    return Toolset(reads, writes, edits, globs, greps)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors tools lose that compare paths as text."""
    tried = [one for one in vectors if one["id"] not in DOCUMENTED]
    return sum(not holds(one, naive) for one in tried)
