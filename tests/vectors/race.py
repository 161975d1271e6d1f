"""Races: another process swaps names, guesses names, or saves, while a tool is at work.

The attacker is a process of its own. The control, which checks first and opens then, runs against
the same one. Longer runs of the same are in the tests of the tools.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from handrail import Call, Executor, Result, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, edit, glob, grep, read, write
from tools.files.test_openat import OPENERS, open_by_walk
from tools.stage import HERE, Opener, attacked, kind, tree

CANARY = "CANARY-9d2e"
Do = Callable[[str, dict[str, Any]], str]
"""Makes a call, and gives what a model would read."""


class Hands(NamedTuple):
    """What is attacked: tools over a folder, and how often each of them is tried."""

    over: Callable[[Path, Opener], Do]
    tries: int


def _real(root: Path, opener: Opener) -> Do:
    workspace = Workspace(root, opener=opener)
    executor = Executor(Toolset(*(make(workspace) for make in (read, write, edit, glob, grep))))
    return lambda name, args: executor.run_sync(Call(name, args, "1")).text


class Checked(NamedTuple):
    """The control: a path is checked, then it is opened; scratch files have names to guess."""

    root: Path

    def place(self, path: str) -> Path:
        if not (self.root / path).resolve().is_relative_to(self.root):
            raise OSError
        return self.root / path

    def read(self, path: str) -> str:
        return self.place(path).read_text(encoding="utf-8")

    def write(self, path: str, content: str) -> str:
        self.place(path).parent.mkdir(parents=True, exist_ok=True)
        scratch = self.place(path).parent / ".scratch"
        scratch.write_text(content, encoding="utf-8")
        scratch.replace(self.place(path))
        return "written"

    def search(self) -> str:
        found = []
        for folder, names, files in os.walk(self.root):
            names[:] = [one for one in names if not Path(folder, one).is_symlink()]
            found += [Path(folder, one).read_text(encoding="utf-8") for one in files]
        return "\n".join(found)


def _naive(root: Path, _opener: Opener) -> Do:
    files = Checked(root)

    def do(name: str, args: dict[str, Any]) -> str:
        with suppress(OSError, ValueError):
            match name:
                case "read":
                    return files.read(args["file_path"])
                case "write":
                    return files.write(args["file_path"], args["content"])
                case _:
                    return files.search()
        return "not done"

    return do


REAL = Hands(_real, 120)
NAIVE = Hands(_naive, 30_000)


@contextmanager
def ground() -> Iterator[Path]:
    """A folder with a workspace, and beside it what must be neither seen nor touched."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for name in ("ws/a/d", "ws/new/deep", "out/deep", "moved"):
            (out / name).mkdir(parents=True)
        (out / "ws/a/d/f").write_text("inside", encoding="utf-8")
        for name in ("out/f", "out/deep/f"):
            (out / name).write_text(CANARY, encoding="utf-8")
        (out / "ws/a/l").symlink_to(out / "out")
        (out / "ws/a/r").symlink_to("../../out")
        (out / "ws/l").symlink_to(out / "out")
        yield out


def quiet(place: Path, do: Callable[[int], str], tries: int) -> bool:
    """Whether nothing outside is shown or changed, however often it is tried."""
    before = tree(place / "out")
    for number in range(tries):
        if CANARY in do(number) or len(list((place / "out").iterdir())) != 2:
            return False
    return tree(place / "out") == before


def _reads(link: str, *openers: Opener) -> Callable[[Hands], bool]:
    def held(hands: Hands) -> bool:
        for opener in openers:
            with ground() as place, attacked(place / "ws/a", "d", link):
                do = hands.over(place / "ws", opener)
                if not quiet(
                    place, lambda _, do=do: do("read", {"file_path": "a/d/f"}), hands.tries
                ):
                    return False
        return True

    return held


def _writes(path: str, folder: str, name: str, link: str) -> Callable[[Hands], bool]:
    """Write to a path with a number in it, while a folder on the way is swapped."""

    def held(hands: Hands) -> bool:
        for opener in OPENERS:
            with ground() as place, attacked(place / folder, name, link):
                do = hands.over(place / "ws", opener)

                def one(number: int, do: Do = do) -> str:
                    return do("write", {"file_path": path.format(number), "content": "new"})

                if not quiet(place, one, hands.tries // 3):
                    return False
        return True

    return held


def _walks(hands: Hands) -> bool:
    for opener in OPENERS:
        with ground() as place, attacked(place / "ws/a", "d", "l"):
            do = hands.over(place / "ws", opener)
            for name, args in (("grep", {"pattern": "."}), ("glob", {"pattern": "**/*"})):

                def one(_: int, do: Do = do, call: tuple[str, Any] = (name, args)) -> str:
                    return do(*call)

                if not quiet(place, one, min(hands.tries // 12, 3_000)):
                    return False
    return True


def _a_save_in_between_is_kept(_hands: Hands) -> bool:
    """What is saved between an edit's look at a file and its change is not overwritten."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, str(HERE / "moments.py"), folder],
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        text, there, _ = json.loads(done.stdout)["saved after the check"]
        return "changed at this moment" in text and there == {"f": "theirs"}


def _a_guessed_scratch_file_is_not_followed(hands: Hands) -> bool:
    """The attacker knows the name beforehand, as nobody can."""
    known = secrets.token_hex
    for opener in OPENERS:
        with ground() as place:
            for name in (".scratch", ".handrail-guessed.tmp"):
                (place / "ws/a/d" / name).symlink_to(place / "out/f")
            secrets.token_hex = lambda _size=None: "guessed"
            try:
                do = hands.over(place / "ws", opener)
                new = {"file_path": "a/d/n", "content": "new"}
                if not quiet(place, lambda _, do=do, new=new: do("write", new), 1):
                    return False
            finally:
                secrets.token_hex = known
    return True


class _Guessed(Iterator[str]):
    """The random part of names, in an order that an attacker knows."""

    def __init__(self) -> None:
        self._left = iter(["guessed", *map(str, range(100))])

    def __next__(self) -> str:
        return next(self._left)


@contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """Where temporary files are made meanwhile; what the first would be called is taken."""
    folder = place / "tmp"
    folder.mkdir()
    (folder / "handrail-guessed").symlink_to(place / "out")
    before = tempfile.tempdir, tempfile._name_sequence  # type: ignore[attr-defined]  # noqa: SLF001
    tempfile.tempdir, tempfile._name_sequence = str(folder), _Guessed()  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        yield folder
    finally:
        tempfile.tempdir, tempfile._name_sequence = before  # type: ignore[attr-defined]  # noqa: SLF001


def _commanded(place: Path, command: str) -> Result:
    async def turn() -> Result:
        async with Executor(Toolset(bash(Sandbox(place / "ws")))) as executor:
            return await executor.run(Call("bash", {"command": command}, "1"))

    return anyio.run(turn)


ELSEWHERE = """
import os, sys
from pathlib import Path
from handrail import Call, Executor, HandrailError, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import bash
planted = Path(f"/tmp/handrail-{os.geteuid()}")
planted.symlink_to(sys.argv[2])
try:
    Executor(Toolset(bash(Sandbox(sys.argv[1])))).run_sync(Call("bash", {"command": "echo"}, "1"))
except HandrailError:
    pass
finally:
    planted.unlink()
"""


def _a_planted_scratch_folder_is_not_used(hands: Hands) -> bool:
    with ground() as place, scratch(place) as folder:
        before = tree(place / "out")
        if hands is NAIVE:
            (folder / "handrail-guessed").mkdir(exist_ok=True)
            (folder / "handrail-guessed/x").write_text("new", encoding="utf-8")
            return tree(place / "out") == before
        done = _commanded(place, 'echo new > "${TMPDIR:-/tmp}/x" && echo new > /tmp/y')
        _with_a_planted_folder_for_locks(place)
        return done.failure is None and tree(place / "out") == before


def _with_a_planted_folder_for_locks(place: Path) -> None:
    """Its name follows from the user's id, and so somebody else may have made it first."""
    as_another = ["unshare", "--user", f"--map-user={os.getpid() + 1_000_000}", sys.executable]
    subprocess.run(  # noqa: S603  our own interpreter
        [*as_another, "-c", ELSEWHERE, str(place / "ws"), str(place / "out")],
        capture_output=True,
        check=False,
    )


def _scratch_files_are_private(hands: Hands) -> bool:
    """All that is left in the way of others while commands run: nobody else can look into it."""
    with ground() as place, scratch(place) as folder:
        if hands is NAIVE:
            (folder / "output").write_text("secret", encoding="utf-8")
            return not _open_to_others(folder)
        done = _commanded(place, "umask 0; echo secret > /tmp/x; mkdir /tmp/d; chmod 777 /tmp/d")
        locks = Path(f"/tmp/handrail-{os.geteuid()}")  # noqa: S108
        return done.failure is None and not _open_to_others(folder) and not _others(locks)


def _open_to_others(folder: Path) -> list[str]:
    """Scratch files and folders that others could enter; those below a closed one do not count."""
    return [one.name for one in folder.iterdir() if not one.is_symlink() and _others(one)]


def _others(path: Path) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _two_edits_of_one_turn_both_count(_hands: Hands) -> bool:
    for opener in OPENERS:
        with ground() as place:
            path = place / "ws/a/d/f"
            path.write_text("one two", encoding="utf-8")
            calls = [
                ("edit", {"file_path": "a/d/f", "old_string": old, "new_string": old.upper()})
                for old in ("one", "two")
            ]
            workspace = Workspace(place / "ws", opener=opener)

            async def turn(workspace: Workspace = workspace, calls: Any = calls) -> list[Result]:
                async with Executor(Toolset(edit(workspace))) as executor:
                    return await executor.run_all(
                        [Call(name, args, str(n)) for n, (name, args) in enumerate(calls)]
                    )

            done = anyio.run(turn)
            if {kind(one) for one in done} != {None} or path.read_text(
                encoding="utf-8"
            ) != "ONE TWO":
                return False
    return True


def _moved_out(hands: Hands) -> bool:
    """The folder that is read goes out of the workspace and comes back, all the time."""
    for opener in OPENERS:
        told = set[str]()
        with ground() as place, attacked(place, "ws/a/d", "moved"):
            do = hands.over(place / "ws", opener)

            def one(_: int, do: Do = do, told: set[str] = told) -> str:
                text = do("read", {"file_path": "a/d/f"})
                told.add(re.sub(r"'.*", "", text))
                return text

            held = quiet(place, one, hands.tries)
            for number in range(10_000):  # until it was found inside, too
                if "     1\tinside" in told:
                    break
                one(number)
        if not held or "     1\tinside" not in told or any("broke" in text for text in told):
            return False
    return True


CHECKS: dict[str, Callable[[Hands], bool]] = {
    "race-001": _reads("l", *OPENERS),
    "race-002": _reads("r", *OPENERS),
    "race-003": _reads("l", open_by_walk),
    "race-004": _writes("a/d/w{}", "ws/a", "d", "l"),
    "race-005": _a_save_in_between_is_kept,
    "race-006": _writes("new/n{}/f", "ws", "new", "l"),
    "race-007": _walks,
    "race-008": _a_guessed_scratch_file_is_not_followed,
    "race-009": _a_planted_scratch_folder_is_not_used,
    "race-010": _scratch_files_are_private,
    "race-011": _two_edits_of_one_turn_both_count,
    "race-012": _moved_out,
}
WITH_A_CONTROL = [f"race-{number:03}" for number in (1, 2, 3, 4, 6, 7, 8, 9, 10)]


def holds(vector: dict[str, Any], hands: Hands = REAL) -> bool:
    """Whether nothing outside is seen or touched, and nothing of anybody's is lost."""
    return CHECKS[vector["id"]](hands)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many races a tool loses that checks first and opens then."""
    return sum(not holds(one, NAIVE) for one in vectors if one["id"] in WITH_A_CONTROL)
