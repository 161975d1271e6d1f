"""Tool search: ours and the installed peers over the same data, in one go.

Each library lives in an environment of its own, installed by name, below `.venvs/` beside `bench/peers.py`, or
where BENCH_VENVS says. `python bench/toolsearch/run.py small` leaves the 100,000 tools out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from big import big_rows
from catalogues import DATA, DEPTH, HERE, Question, catalogues, question_sets
from cost import cost_rows
from github import github_rows
from hostile import KINDS, hostile_tool
from measures import Score, interval, mean, score

VENVS = Path(os.environ.get("BENCH_VENVS", HERE.parent / ".venvs"))
PACKAGES = {
    "handrail": [],
    "ratel": ["ratel-ai"],
    "fastmcp": ["fastmcp"],
    "toolregistry": ["toolregistry"],
    "pydantic-ai": ["pydantic-ai-slim"],
}
ROUNDS = 5
"""How often each library answers all questions of a set, in turn with the others, for the times."""
SMALLEST = 30
"""Questions of a subset that are compared with each peer."""


class Library:
    """A library in a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        environment = {**os.environ, "HANDRAIL_TOOLSEARCH": str(DATA)}
        if name == "handrail":
            environment["PYTHONPATH"] = str(HERE.parents[1] / "src")
        self._process = subprocess.Popen(
            [_python(name), str(HERE / "worker.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def request(self, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def ask(self, questions: Iterable[Question], limit: int = DEPTH) -> dict[str, Any]:
        return self.request(ask=[[one.catalogue, one.queries, limit] for one in questions])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _python(name: str) -> str:
    """Return the interpreter of a library's environment, which is made if it does not exist."""
    if name == "handrail":
        return sys.executable
    folder = VENVS / f"search-{name}"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *PACKAGES[name]], check=True)
        (folder / "ready").touch()
    return str(folder / "bin" / "python")


def _counter() -> str | None:
    """Return the interpreter that counts tokens; None if it cannot be installed."""
    folder = VENVS / "search-tokens"
    pip = [folder / "bin" / "pip", "install", "-q"]
    if not (folder / "ready").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([*pip, "tiktoken"], check=True)
            subprocess.run([*pip, "--no-deps", "litellm"], check=True)
        except subprocess.CalledProcessError:
            return None
        (folder / "ready").touch()
    return str(folder / "bin" / "python")


Answers = dict[str, dict[str, list[Score]]]
"""Scores by library and set."""


def quality(libraries: Sequence[Library], sets: dict[str, list[Question]]) -> Answers:
    print(f"{'set':26} {'library':14} {'n':>4} {'recall@1':>9} {'recall@5':>9} {'MRR':>7}")
    answers: Answers = {library.name: {} for library in libraries}
    for name, questions in sets.items():
        for library in libraries:
            found = library.ask(questions)["names"]
            scores = [score(one, names) for one, names in zip(questions, found, strict=True)]
            answers[library.name][name] = scores
            _print_row(name, library.name, scores)
        for catalogue in dict.fromkeys(one.catalogue for one in questions):
            for library in libraries:
                part = _subset(answers[library.name][name], questions, catalogue)
                _print_row(f"  {name} {catalogue}", library.name, part)
    return answers


def _subset(scores: list[Score], questions: list[Question], catalogue: str) -> list[Score]:
    pairs = zip(scores, questions, strict=True)
    return [held for held, question in pairs if question.catalogue == catalogue]


def _print_row(what: str, library: str, scores: Sequence[Score]) -> None:
    recall_1, recall_5, rank = mean(scores)
    print(f"{what:26} {library:14} {len(scores):4} {recall_1:9.3f} {recall_5:9.3f} {rank:7.3f}")


def compare(answers: Answers, sets: dict[str, list[Question]]) -> None:
    print("\nreciprocal rank, ours less theirs, with the 95 % interval of a paired bootstrap")
    ours = answers["handrail"]
    for peer in [name for name in answers if name != "handrail"]:
        columns = {
            name: interval(
                [held.rank for held in ours[name]], [held.rank for held in answers[peer][name]]
            )
            for name in sets
        }
        columns["all"] = interval(
            [held.rank for name in sets for held in ours[name]],
            [held.rank for name in sets for held in answers[peer][name]],
        )
        cells = [f"{name} {d:+.3f} [{a:+.3f}, {b:+.3f}]" for name, (d, a, b) in columns.items()]
        print(f"{peer:14} {'  '.join(cells)}")
    print("\nsubsets of 30 questions or more where a peer's recall@5 is higher by more than one")
    for name, questions in sets.items():
        for catalogue in dict.fromkeys(one.catalogue for one in questions):
            _print_behind(answers, name, questions, catalogue)


def _print_behind(answers: Answers, name: str, questions: list[Question], catalogue: str) -> None:
    found = {
        library: sum(held.recall_5 for held in _subset(sets[name], questions, catalogue))
        for library, sets in answers.items()
    }
    size = sum(one.catalogue == catalogue for one in questions)
    best = max(found, key=lambda library: found[library])
    if size >= SMALLEST and found[best] > found["handrail"] + 1:
        print(f"  {name} {catalogue}: {best} {found[best]:.1f}, handrail {found['handrail']:.1f}")


def times(libraries: Sequence[Library], questions: list[Question]) -> None:
    """Print the CPU time of a search at native size; libraries take turns."""
    spent: dict[str, list[float]] = {library.name: [] for library in libraries}
    for _ in range(ROUNDS):
        for library in libraries:
            spent[library.name].append(sum(library.ask(questions, 5)["seconds"]))
    ours = statistics.median(spent["handrail"][1:])
    print("\nCPU of a search at native size, in turn")
    for name, rounds in spent.items():
        median = statistics.median(rounds[1:])
        each = 1e6 * median / len(questions)
        print(f"{name:14} {each:9.0f} us   ours is {ours / median:.3f} times this")


def stuffed(libraries: Sequence[Library], questions: list[Question]) -> None:
    print("\na stuffed definition is among the first five of so many model-written queries")
    held = catalogues()
    for library in libraries:
        shares = []
        for kind in KINDS:
            names = {name: hostile_tool(tools, kind)["name"] for name, tools in held.items()}
            for name in held:
                library.request(load=name, hostile=kind)
            found = library.ask(questions, 5)["names"]
            hits = [
                names[one.catalogue] in first for one, first in zip(questions, found, strict=True)
            ]
            shares.append(f"{kind} {sum(hits) / len(hits):.1%}")
        print(f"{library.name:14} {'  '.join(shares)}")


def main(wanted: list[str]) -> None:
    sets = question_sets()
    libraries = [Library(name) for name in PACKAGES]
    for library in libraries:
        for name in catalogues():
            library.request(load=name)
    answers = quality(libraries, sets)
    compare(answers, sets)
    times(libraries, sets["model"] + sets["keywords"])
    stuffed(libraries, sets["model"])
    for library in libraries:
        library.close()
    for row in cost_rows(sets["model"], _counter()):
        print(row)
    for row in github_rows():
        print(row)
    if "small" not in wanted:
        for row in big_rows(sets["judged"], sets["model"]):
            print(row)


if __name__ == "__main__":
    main(sys.argv[1:])
