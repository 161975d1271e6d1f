"""What real shells run, to be compared with what a lexer says they would.

A line stands in a file of its own, and one shell reads many of them. The names in NAMES are
functions there; each notes its arguments and ends with its own status. There is no other program.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

SHELLS = {"bash": ["bash", "--norc"], "dash": ["dash"], "zsh": ["zsh", "-f"]}
NAMES = {"ls": 0, "cat": 1, "git": 0, "grep": 1, "n_1": 0}

Commands = list[tuple[str, ...]]


class Simple(Protocol):
    """A command as a lexer reads it."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def operator(self) -> str: ...


Reading = tuple[Simple, ...]

_CHUNK = 2_000


def known(reading: Reading) -> bool:
    return all(simple.argv[0] in NAMES for simple in reading)


def expected(reading: Reading) -> Commands:
    """What runs, given how each command ends: a list of pipelines, with && and || between them."""
    ran: Commands = []
    status, runs = 0, True
    for simple in reading:
        if simple.operator == "&&":
            runs = status == 0
        elif simple.operator == "||":
            runs = status != 0
        elif simple.operator != "|":
            runs = True
        if runs:
            ran.append(simple.argv)
            status = NAMES[simple.argv[0]]
    return sorted(ran)


def differences(
    shell: str, lines: Sequence[tuple[str, Reading]], *, doubly: bool = True
) -> list[str]:
    """The lines of which a shell makes something else; it is asked again before it is believed."""
    differing: list[str] = []
    for start in range(0, len(lines), _CHUNK):
        chunk = lines[start : start + _CHUNK]
        truths = _truths(shell, [text for text, _ in chunk])
        differing += [
            text
            for (text, reading), truth in zip(chunk, truths, strict=True)
            if truth != expected(reading) and not (doubly and _agrees_alone(shell, text, reading))
        ]
    return differing


def _agrees_alone(shell: str, text: str, reading: Reading) -> bool:
    """The two ends of a pipe may have written into one another's notes; seldom so, and not again."""
    return any(_truths(shell, [text]) == [expected(reading)] for _ in range(5))


def _truths(shell: str, texts: Sequence[str]) -> list[Commands | None]:
    """What ran of each line; None where the shell complained, or where it never came so far."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, text in enumerate(texts):
            (folder / str(number)).write_bytes(text.encode())
        (folder / "driver").write_text(_driver(len(texts)), "utf-8")
        with (folder / "noise").open("ab") as noise:
            subprocess.run(  # noqa: S603  stubs only, and no PATH
                [*SHELLS[shell], "driver"],
                executable=shutil.which(shell),
                cwd=folder,
                env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                check=False,
            )
        ran = dict(_lines(folder / "log"))
        noisy = dict(_lines(folder / "noise"))
    return [
        _commands(ran[line]) if line in ran and not noisy.get(line) else None
        for line in range(len(texts))
    ]


def _driver(count: int) -> str:
    """Stubs write to 9, so that no redirection of a line changes what they say."""
    stubs = "\n".join(
        f"{name}() {{ printf '%s\\0' $# {name} \"$@\" >&9; return {status}; }}"
        for name, status in NAMES.items()
    )
    numbers = " ".join(map(str, range(count)))
    step = r"printf '\001%s\0' $n >&9; printf '\001%s\0' $n >&2; . ./$n"
    return f"exec 9>>log\n{stubs}\nfor n in {numbers}; do {step}; done\n"


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """What was written for each line, cut at the NULs."""
    for part in path.read_bytes().decode(errors="replace").split("\1")[1:]:
        number, *fields = part.split("\0")
        yield int(number), fields[:-1] if fields[-1:] == [""] else fields


def _commands(fields: list[str]) -> Commands | None:
    ran: Commands = []
    rest = iter(fields)
    for count in rest:
        if not count.isdigit():
            return None
        ran.append(tuple(next(rest, "") for _ in range(int(count) + 1)))
    return sorted(ran)


def runs_of(name: str, texts: Sequence[str]) -> set[int]:
    """The numbers of those texts by which bash runs a command of this name."""
    return {
        start + number
        for start in range(0, len(texts), _CHUNK)
        for number in _runs_of(name, texts[start : start + _CHUNK])
    }


def _runs_of(name: str, texts: Sequence[str]) -> set[int]:
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / str(number)).write_bytes(text.encode())
        numbers = " ".join(map(str, range(len(texts))))
        driver = f"""exec 9>>log
            {name}() {{ echo $n >&9; }}
            command_not_found_handle() {{ return 127; }}
            for n in {numbers}; do ( . ./$n ) </dev/null >/dev/null 2>&1; done"""
        subprocess.run(  # noqa: S603  stubs only, and no PATH
            [*SHELLS["bash"], "-c", driver],
            executable=shutil.which("bash"),
            cwd=folder,
            env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
            check=False,
        )
        return set(map(int, (Path(folder) / "log").read_text("utf-8").split()))
