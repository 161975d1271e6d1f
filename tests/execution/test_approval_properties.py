"""Batches with questions, answered in any order, in parts, in other processes: once each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from approval_worker import KEY, executor, go_on, verify_pending
from handrail import Call
from handrail.approvals import sign_pending

WORDS = ["yes", "no", "edit", "respond"]


@contextmanager
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as made:
        yield made


def written(where: str) -> Counter[str]:
    log = Path(where) / "log"
    return Counter(log.read_text(encoding="utf-8").split()) if log.exists() else Counter()


async def begun(where: str, paths: list[str]) -> tuple[list[str], list[str]]:
    """Run a batch: the kinds of its results, and the questions it left."""
    calls = [Call("save", json.dumps({"path": path}), f"c{n}") for n, path in enumerate(paths)]
    async with executor({"folder": where}) as runs:
        results = await runs.run_all(calls)
    kinds = [one.failure.kind.value if one.failure else "good" for one in results]
    return kinds, [sign_pending(one.pending, KEY) for one in results if one.pending is not None]


PATHS = st.lists(st.sampled_from(["g1", "g2", "g3", "f1", "f2", "f3"]), min_size=1, max_size=6)


@given(
    PATHS,
    st.lists(st.sampled_from(WORDS), min_size=6, max_size=6),
    st.permutations(range(6)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_each_approved_call_runs_once_and_nothing_else_does(
    paths: list[str], words: list[str], order: list[int], sizes: list[int]
) -> None:
    """In random order and in parts; everything that was answered before is answered again."""
    with folder() as where:
        _, tokens = anyio.run(begun, where, paths)
        free = [path for path in paths if path.startswith("f")]
        assert written(where) == Counter(free)

        answers: dict[str, str] = {}
        left, todo = tokens, [f"c{n}" for n in order if n < len(paths)]
        for size in [*sizes, 6]:
            answers |= {call_id: words[int(call_id[1:])] for call_id in todo[:size]}
            todo = todo[size:]
            said = anyio.run(go_on, {"folder": where, "tokens": left, "answers": answers})
            replayed = anyio.run(go_on, {"folder": where, "tokens": tokens, "answers": answers})
            assert "good" not in [
                kind
                for kind, call_id in zip(replayed["kinds"], ids(tokens), strict=True)
                if call_id not in answers
            ]
            left = newest(said["tokens"], replayed["tokens"])
        for _ in range(len(paths) + 1):  # one may be edited only once the one before it has ended
            state = {"folder": where, "tokens": left, "answers": answers, "again": "yes"}
            last = anyio.run(go_on, state)
            left = last["tokens"]
        assert left == []

        gated = {f"c{n}": path for n, path in enumerate(paths) if path.startswith("g")}
        expected = Counter(free)
        expected.update(path for call_id, path in gated.items() if answers[call_id] == "yes")
        ran = written(where)
        edited = {name: count for name, count in ran.items() if name.startswith("g-edited")}
        assert set(edited.values()) <= {1}
        assert ran - Counter(edited) == expected
        assert set(edited) <= {f"g-edited-{one}" for one in gated if answers[one] == "edit"}
        assert last["tampered"] == 0


def ids(tokens: list[str]) -> list[str]:
    return [verify_pending(token, KEY).call.id for token in tokens]


def newest(*several: list[str]) -> list[str]:
    """The last question about each call."""
    tokens = [token for some in several for token in some]
    asked = sorted((verify_pending(token, KEY).round, token) for token in tokens)
    return list({verify_pending(token, KEY).call.id: token for _, token in asked}.values())


@pytest.mark.parametrize(
    "change",
    [{"version": "2"}, {"changed": True}, {"now": 100.0}],
    ids=["another policy", "another spec", "too late"],
)
@given(PATHS.filter(lambda paths: any(one.startswith("g") for one in paths)))
def test_a_yes_is_none_once_anything_has_changed(change: dict[str, Any], paths: list[str]) -> None:
    with folder() as where:
        _, tokens = anyio.run(begun, where, paths)
        yes = {f"c{n}": "yes" for n in range(6)}

        said = anyio.run(go_on, {"folder": where, "tokens": tokens, "answers": yes, **change})

        assert "good" not in said["kinds"]
        assert written(where) == Counter(path for path in paths if path.startswith("f"))


@given(PATHS.filter(lambda paths: any(one.startswith("g") for one in paths)), st.data())
def test_a_question_that_was_changed_on_its_way_is_not_taken(paths: list[str], data: Any) -> None:
    with folder() as where:
        _, tokens = anyio.run(begun, where, paths)
        at = data.draw(st.integers(0, len(tokens[0]) - 1))
        letter = data.draw(st.sampled_from("AZaz09-_.").filter(lambda one: one != tokens[0][at]))
        forged = tokens[0][:at] + letter + tokens[0][at + 1 :]

        said = anyio.run(go_on, {"folder": where, "tokens": [forged], "answers": {"c0": "yes"}})

        assert said == {"kinds": [], "tokens": [], "tampered": 1}


def test_processes_that_answer_at_the_same_time_run_each_call_once() -> None:
    paths = [f"g{n}" for n in range(6)]
    words = dict(
        zip([f"c{n}" for n in range(6)], ["yes", "yes", "no", "yes", "yes", "respond"], strict=True)
    )
    worker = Path(__file__).parents[1] / "approval_worker.py"
    with folder() as where:
        _, tokens = anyio.run(begun, where, paths)

        def answered(_: int) -> Any:
            state = json.dumps({"folder": where, "tokens": tokens, "answers": words})
            run = subprocess.run(  # noqa: S603  our own interpreter
                [sys.executable, str(worker)],
                input=state,
                check=True,
                capture_output=True,
                encoding="utf-8",
            )
            return json.loads(run.stdout)["kinds"]

        with ThreadPoolExecutor(4) as pool:
            kinds = list(pool.map(answered, range(6)))

        assert written(where) == Counter(["g0", "g1", "g3", "g4"])
        good = Counter(place for one in kinds for place, kind in enumerate(one) if kind == "good")
        assert good == Counter([0, 1, 3, 4, 5])


def test_a_ledger_that_forgets_is_caught_by_the_same_count() -> None:
    """The control: without single use, an answer that comes twice runs twice."""
    with folder() as where:
        _, tokens = anyio.run(begun, where, ["g1"])
        for _ in range(2):
            anyio.run(go_on, {"folder": where, "tokens": tokens, "answers": {"c0": "yes"}})
            for used in (Path(where) / "ledger").iterdir():
                used.unlink()

        assert written(where) == Counter({"g1": 2})
