"""Lists of command lines as coding agents send them: which are asked about, and which are not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from handrail import DESTROY, WRITE, Access, Ask, Call, CheckedCall, Decision, Spec
from handrail.permissions import Pending
from handrail.policy import RememberedApprovals, Rulebook, RulePaths, load

DATA = Path(__file__).parents[2] / "data"
BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
ANYTHING = (Access(DESTROY, "*"),)
TRACKED = """
src/app/main.py src/app/config.py src/app/legacy.py src/index.ts tests/test_api.py README.md package.json pyproject.toml Makefile
scripts/deploy.sh docs/a.md manage.py .env.example k8s/a.yaml migrations/1.sql
""".split()
UNTRACKED = """
.env notes.txt data/app.db src/app/new.py .venv/bin/python .venv/bin/activate node_modules/.bin/eslint logs/app.log
""".split()


class Line(NamedTuple):
    text: str
    kind: str
    weight: int
    edits: str
    open: str


def read_list(name: str) -> Iterator[list[str]]:
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("# "):
            yield line.split("\t")


def lines_of(name: str) -> list[Line]:
    return [
        Line(text, kind, int(weight), edits, opened)
        for text, kind, weight, edits, opened, _ in read_list(name)
    ]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with tracked and untracked files, a secret, and an environment."""
    root = tmp_path_factory.mktemp("home") / "work" / "app"
    for path in [*TRACKED, *UNTRACKED]:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n", encoding="utf-8")
    for words in (["init", "-q"], ["add", *TRACKED], ["commit", "-qm", "x"]):
        named = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", "-C", root, *named, *words], check=True)  # noqa: S603, S607
    return root


def rulebook(root: Path, mode: str) -> Rulebook:
    return load(RulePaths.of(root, config=root.parent / "config"), mode=mode, sandboxed=True)


def unescape(text: str, root: Path) -> str:
    plain = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\")
    return plain.replace("{WS}", str(root))


def decide(policy: Rulebook, line: str) -> Decision:
    return policy(CheckedCall.recorded(Call("bash", {"command": line}, "1"), BASH, ANYTHING))


def asked(root: Path, mode: str, texts: list[str]) -> set[str]:
    policy = rulebook(root, mode)
    return {text for text in texts if isinstance(decide(policy, unescape(text, root)), Ask)}


def wrong(root: Path, name: str) -> dict[str, list[str]]:
    """The lines of a list that are decided against their verdicts, by mode, kind and verdict."""
    lines, found = lines_of(name), dict[str, list[str]]()
    for mode in ("edits", "open"):
        asks = asked(root, mode, [line.text for line in lines])
        for line in lines:
            verdict = line.edits if mode == "edits" else line.open
            if verdict != "any" and (line.text in asks) != (verdict == "ask"):
                found.setdefault(f"{mode}: {line.kind}, {verdict}", []).append(line.text)
    return found


def test_of_737_lines_these_are_decided_wrongly(workspace: Path) -> None:
    hidden = """rg -n --hidden -g '!.git' "DATABASE_URL" ."""

    assert wrong(workspace, "agent-commands-2.tsv") == {
        "edits: usual, run": [hidden],
        "open: usual, run": [hidden],
    }


def test_of_245_lines_written_later_these_are_decided_wrongly(workspace: Path) -> None:
    assert wrong(workspace, "agent-commands-3.tsv") == {
        "open: hostile, run": ['x="reset --hard"; git $x']
    }


def test_of_407_lines_in_other_spellings_these_are_decided_wrongly(workspace: Path) -> None:
    certificate = "openssl x509 -in certs/dev.pem -noout -subject -dates"

    assert wrong(workspace, "agent-commands-4.tsv") == {
        "edits: usual, run": [certificate],
        "open: usual, run": [certificate, "aws --version && aws configure list"],
    }


def test_of_the_lines_that_hide_a_program_or_a_loss_none_is_decided_wrongly(
    workspace: Path,
) -> None:
    assert wrong(workspace, "agent-commands-5.tsv") == {}


def test_of_524_usual_lines_one_is_asked_about_without_need(workspace: Path) -> None:
    certificate = "openssl x509 -in certs/dev.pem -noout -text"
    lines = lines_of("agent-commands-6.tsv")
    asks = asked(workspace, "edits", [line.text for line in lines])

    assert wrong(workspace, "agent-commands-6.tsv") == {
        "edits: usual, run": [certificate],
        "open: usual, run": [certificate],
    }
    assert (len(lines), len(asks)) == (524, 9)


def test_the_lists_have_the_lines_that_their_figures_are_about() -> None:
    lines = lines_of("agent-commands-2.tsv")
    counts = {
        kind: (
            len([line for line in lines if line.kind == kind]),
            len([line for line in lines if line.kind == kind and line.edits == "ask"]),
            len([line for line in lines if line.kind == kind and line.open == "ask"]),
        )
        for kind in ("usual", "hostile", "scary")
    }
    assert counts == {"usual": (607, 48, 20), "hostile": (84, 84, 32), "scary": (46, 0, 0)}
    assert len({line.text for line in lines}) >= 0.99 * len(lines)
    assert sum(line.weight for line in lines if line.kind == "usual") > len(lines)


def test_a_policy_without_a_sandbox_asks_about_most_of_them(workspace: Path) -> None:
    texts = [line.text for line in lines_of("agent-commands-3.tsv") if line.kind == "usual"]
    strict = Rulebook(mode="edits", workspace=workspace)
    asks = [text for text in texts if isinstance(decide(strict, unescape(text, workspace)), Ask)]

    assert len(asks) == len(texts)


def test_of_200_lines_none_is_decided_wrongly_in_edits(workspace: Path) -> None:
    verdicts = {text: verdict for text, verdict, _ in read_list("agent-commands.tsv")}
    asks = asked(workspace, "edits", list(verdicts))

    assert len(verdicts) == 200
    assert [text for text, says in verdicts.items() if (text in asks) != (says == "ask")] == []


def test_of_133_lines_those_that_are_asked_about_are_worth_it(workspace: Path) -> None:
    worth = dict(read_list("usual-commands.tsv"))
    asks = asked(workspace, "edits", list(worth))

    assert (len(worth), len(asks)) == (133, 16)
    assert {worth[text] for text in asks} == {"yes", "perhaps"}
    assert [text for text, says in worth.items() if says == "yes" and text not in asks] == []
    assert asked(workspace, "open", list(worth)) == {
        "git push -u origin fix/clamp",
        "gh pr create --title x --body y",
    }


def test_of_133_lines_each_that_is_asked_about_can_be_remembered(workspace: Path) -> None:
    policy = rulebook(workspace, "edits")
    memory = RememberedApprovals(policy, RulePaths.of(workspace, config=workspace.parent / "own"))
    refused: list[str] = []
    for text, _ in read_list("usual-commands.tsv"):
        decision = decide(policy, unescape(text, workspace))
        if isinstance(decision, Ask) and memory.refusal(pending(decision, text, workspace)):
            refused.append(text)

    assert refused == []


def pending(ask: Ask, text: str, root: Path) -> Pending:
    call = Call("bash", {"command": unescape(text, root)}, "1")
    return Pending(
        run_id="", turn_id="", key="q", position=0, round=0, call=call, effect=WRITE, accesses=ANYTHING, question=ask.question,
        fingerprint="", asked_at=0.0, expires_at=1.0, origin=ask.origin, once=ask.once,
    )  # fmt: skip
