"""`handrail run`: what goes where, what is denied, and what would allow it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from inline_snapshot import snapshot

import forked
from cli_harness import Handrail, Ran, Schemas, made
from cli_runs import journal_runs, standing_of, standings
from cli_scripts import MODEL, programmed, scripted

STREAMED = """
async def model(request):
    if isinstance(request.messages[-1], ToolResults):
        yield Delta("It is ")
        yield Delta("hidden", thought=True)
        yield Delta("done.")
        yield Reply((Text("It is done."),), usage=Usage(input_tokens=7, output_tokens=3, cached_tokens=2), model="m-1")
        return
    yield Delta("I look.")
    call = glob("c1")
    yield call
    yield Reply((Text("I look."), call), "calls", Usage(input_tokens=5, output_tokens=2))
"""
HEARD = """
async def model(request):
    said = "".join(part.text for part in request.messages[-1].parts)
    return Reply((Text(f"<{said}>"),))
"""


def settled(ran: Ran) -> str:
    """What was said, without what changes from run to run."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", ran.err)
    text = re.sub(r"remembered-[0-9a-f]{8}", "remembered-ID", text)
    text = re.sub(r"/\S*/projects/[0-9a-f]+\.toml", "REMEMBERED", text)
    return re.sub(r"\d{4}-\d{2}-\d{2}", "DATE", text)


def test_words_go_to_stdout_and_all_else_to_stderr(handrail: Handrail) -> None:
    handrail.write("a.txt", "x")

    ran = handrail("run", *programmed(handrail, STREAMED), "Look", "around.")

    assert (ran.exit, ran.out) == (0, "I look.\nIt is done.\n")
    assert settled(ran) == snapshot("""\
run RUN
> glob {"pattern": "*.txt"}
< glob done: a.txt
done: 2 turns, 1 call, 12 tokens in, 5 out
""")


def test_pieces_of_arguments_are_not_printed(handrail: Handrail) -> None:
    handrail.write("a.txt", "x")
    streamed = "model = ScriptedModel(glob('c1'), 'It is done.', stream=True)\n"

    ran = handrail("run", *programmed(handrail, streamed), "Look", "around.")

    assert (ran.exit, ran.out) == (0, "It is done.\n")
    assert settled(ran) == snapshot("""\
run RUN
> glob {"pattern": "*.txt"}
< glob done: a.txt
done: 2 turns, 1 call, 0 tokens in, 0 out
""")


def test_quiet_leaves_the_words(handrail: Handrail) -> None:
    ran = handrail("run", *scripted(handrail, "glob('c1')", "'Done.\\n'"), "Look", "--quiet")

    assert ran == Ran(0, "Done.\n", "")


def test_lines_for_programs(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("run", *programmed(handrail, STREAMED), "Look", "-o", "jsonl")

    lines = [schema("run", line, part="line") for line in ran.lines]
    run = lines[0]["id"]
    assert ran.exit == 0
    assert lines == snapshot(
        [
            {"type": "run", "id": run},
            {"type": "text", "text": "I look."},
            {"type": "call", "call_id": "c1", "tool": "glob", "args": {"pattern": "*.txt"}},
            {
                "type": "result",
                "call_id": "c1",
                "tool": "glob",
                "kind": "",
                "text": "[No file matches. '**/*.txt' would also search subfolders.]",
                "files": [],
            },
            {"type": "text", "text": "It is "},
            {"type": "text", "text": "done."},
            {
                "type": "end",
                "format": 1,
                "id": run,
                "status": "done",
                "reason": "answer",
                "why": "",
                "answer": "It is done.",
                "usage": {"input_tokens": 12, "output_tokens": 5, "cached_tokens": 2},
                "cost": None,
                "turns": 2,
                "calls": 1,
                "denials": [],
                "pending": [],
            },
        ]
    )


def test_one_document_for_programs(handrail: Handrail, schema: Schemas) -> None:
    ran = handrail("run", *programmed(handrail, STREAMED), "Look", "--json")

    told = schema("run", ran.json)
    assert (told["answer"], told["turns"], told["calls"]) == ("It is done.", 2, 1)


def test_calls_that_are_no_json_or_cut_off_are_told_too(
    handrail: Handrail, schema: Schemas
) -> None:
    step = "Reply((Call('glob', '{oops', 'c1'), TruncatedCall('glob', 'c2', '{')), 'length')"

    ran = handrail("run", *scripted(handrail, step, "''"), "Look", "-o", "jsonl")

    lines = [schema("run", line, part="line") for line in ran.lines]
    assert [(one["call_id"], one["args"]) for one in lines if one["type"] == "call"] == [
        ("c1", "{oops"),
        ("c2", "{"),
    ]
    assert [one["kind"] for one in lines if one["type"] == "result"] == ["bad_args", "bad_args"]


WORKS = """
from handrail import READ, Context, Image, tool

@tool(effect=READ)
async def work(context: Context):
    '''Work.'''
    context.progress("half", 0.5)
    yield "one "
    yield "two"

@tool(effect=READ)
def draw() -> Image:
    '''Draw.'''
    return Image(b"png", "image/png")
"""


def test_progress_output_images_and_a_key_twice_are_told(
    handrail: Handrail, schema: Schemas
) -> None:
    handrail.write("works.py", WORKS)
    twice = '{"a": 1, "a": 2}'
    calls = (
        "Call('work', '{}', 'c1')",
        f"Call('draw', '{twice}', 'c2')",
        "Call('draw', '{}', 'c3')",
    )
    model = scripted(handrail, *calls, "'Done.'")

    ran = handrail("run", *model, "-t", "works.py", "Go", "-o", "jsonl")

    lines = [schema("run", line, part="line") for line in ran.lines]
    c1 = {"call_id": "c1", "tool": "work"}
    file = {"name": "image", "media_type": "image/png", "bytes": 3}
    assert [line for line in lines if line["type"] in {"progress", "output"}] == [
        {"type": "progress", **c1, "message": "half", "fraction": 0.5},
        {"type": "output", **c1, "text": "one "},
        {"type": "output", **c1, "text": "two"},
    ]
    assert [line["args"] for line in lines if line["type"] == "call"] == [{}, twice, {}]
    assert [line["files"] for line in lines if line["type"] == "result"] == [[], [], [file]]
    assert "< draw done: [image: image/png, 3 bytes]\n" in ran.err


def test_nothing_that_a_model_says_acts_on_a_terminal(handrail: Handrail) -> None:
    words = "'A\\x1b[2J\\tB\\u202eC\\r\\n', Call('no\\x1b]0;x\\x07', {'a': '\\x9b'}, 'c\\x1b1')"

    ran = handrail("run", *scripted(handrail, f"[{words}]", "'ok'"), "Go")

    assert ran.out == "A\\u{1b}[2J\tB\\u{202e}C\\u{d}\nok\n"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", ran.err)


@pytest.mark.parametrize(
    ("words", "piped", "heard"),
    [
        (["Do", "it"], "", "Do it"),
        (["Do", "it"], "Not asked for.", "Do it"),
        (["-"], "From a pipe.\n", "From a pipe."),
        ([], "From a pipe.\n", "From a pipe."),
        (["Sum", "up:", "-"], "one\ntwo\n", "Sum up:\n\none\ntwo"),
        (["-", "Sum up:"], "one", "Sum up:\n\none"),
        (["--", "--json"], "", "--json"),
    ],
)
def test_the_prompt_is_what_is_said_and_what_is_piped_in(
    handrail: Handrail, words: list[str], piped: str, heard: str
) -> None:
    ran = handrail("run", *programmed(handrail, HEARD), *words, input=piped)

    assert (ran.exit, ran.out) == (0, f"<{heard}>\n")


class Piped:
    """A run whose stdin stays open."""

    def __init__(self, handrail: Handrail, *words: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [forked.program(), "run", *programmed(handrail, HEARD), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=handrail.environment(),
            cwd=handrail.workspace,
            encoding="utf-8",
        )

    def end(self, typed: str = "") -> tuple[int, str]:
        out, _ = self.process.communicate(typed, timeout=30)
        return self.process.returncode, out


def test_a_prompt_does_not_wait_for_stdin(handrail: Handrail) -> None:
    piped = Piped(handrail, "Do it")

    assert piped.process.wait(30) == 0
    assert piped.end() == (0, "<Do it>\n")


@pytest.mark.parametrize("words", [[], ["Sum up:", "-"]])
def test_it_says_that_it_waits_for_stdin(handrail: Handrail, words: list[str]) -> None:
    piped = Piped(handrail, *words)
    assert piped.process.stderr is not None

    assert piped.process.stderr.readline() == "reading the prompt from stdin\n"
    heard = "\n\n".join([*words[:-1], "from a pipe"])
    assert piped.end("from a pipe") == (0, f"<{heard}>\n")


def test_stdin_may_be_too_long(handrail: Handrail) -> None:
    ran = handrail("run", *programmed(handrail, HEARD), "-", "--json", input="x" * (2**24 + 1))

    assert (ran.exit, ran.error["code"]) == (2, "too_long")
    assert ran.error["message"] == "stdin is longer than 16,777,216 bytes"


NOISY = """
import os
import subprocess
import sys
from handrail import READ, tool

os.write(1, b"fd at load\\n")

@tool(effect=READ)
def noisy() -> str:
    '''Prints.'''
    print("printed")
    print("real", file=sys.__stdout__, flush=True)
    os.write(1, b"fd\\n")
    subprocess.run(["echo", "child"])
    return "done"

model = script(Call("noisy", {}, "c1"), "Done.")
"""
NOISES = {"fd at load", "printed", "real", "fd", "child"}


def test_what_tools_print_is_no_data(handrail: Handrail, schema: Schemas) -> None:
    option = (*programmed(handrail, NOISY), "--tools", "m.py")

    text = handrail.process("run", *option, "Go")
    document = handrail.process("run", *option, "Go", "--json")
    lines = handrail.process("run", *option, "Go", "-o", "jsonl")
    saved = next(iter(lines.lines))["id"]
    resumed = handrail.process("runs", "resume", saved, "--json")
    called = handrail.process("tools", "call", "noisy", "--tools", "m.py", "--json")

    assert text.out == "Done.\n"
    assert schema("run", document.json)["answer"] == "Done."
    assert [schema("run", one, part="line")["type"] for one in lines.lines] == [
        "run",
        "call",
        "result",
        "text",
        "end",
    ]
    assert schema("runs-resume", resumed.json)["answer"] == "Done."
    assert schema("tools-call", called.json)["text"] == "done"
    for ran in (text, document, lines, called):
        assert set(ran.err.splitlines()) >= NOISES


def test_stdout_or_stderr_may_be_closed(handrail: Handrail) -> None:
    option = (*programmed(handrail, NOISY), "--tools", "m.py")
    command = [sys.executable, "-m", "handrail.cli", "run", *option, "Go"]

    def ran(closed: str) -> Ran:
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command],
            capture_output=True,
            env=handrail.environment(),
            cwd=handrail.workspace,
            encoding="utf-8",
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    assert ran("2>&-") == (0, "Done.\n", "")
    closed = ran(">&-")
    assert (closed.exit, closed.out) == (0, "")
    full = ran(">/dev/full")
    assert (full.exit, full.err.splitlines()[-1]) == (1, "handrail: No space left on device")


def test_numbers_that_json_has_not_are_words_in_lines(handrail: Handrail, schema: Schemas) -> None:
    step = """[
        Call('glob', '{"pattern": NaN}', 'c1'),
        Call('glob', '{"pattern": [-1e999, 1.5]}', 'c2'),
        Call('glob', '{"pattern": Infinity}', 'c3'),
    ]"""

    ran = handrail("run", *scripted(handrail, step, "'Done.'"), "Go", "-o", "jsonl")

    def never(name: str) -> None:
        raise AssertionError(name)

    lines = [json.loads(one, parse_constant=never) for one in ran.out.splitlines()]
    calls = [schema("run", one, part="line") for one in lines if one["type"] == "call"]
    assert [one["args"]["pattern"] for one in calls] == ["NaN", ["-1e999", 1.5], "Infinity"]


def test_there_must_be_a_prompt(handrail: Handrail) -> None:
    ran = handrail("run", *programmed(handrail, HEARD), "  ", "--json")

    assert (ran.exit, ran.out) == (2, "")
    assert ran.error == {
        "code": "no_prompt",
        "message": "no prompt is given",
        "hint": "pass one, as in `handrail run 'Fix the tests'`, or pipe it to stdin",
        "exit": 2,
    }
    assert not (handrail.state / "runs").exists()


def test_stdin_may_be_closed(handrail: Handrail) -> None:
    model = scripted(handrail, "'Done.'")
    line = shlex.join([sys.executable, "-m", "handrail.cli", "run", *model, "Do it", "-"])
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", f"exec <&-; exec {line}"],  # noqa: S607
        capture_output=True,
        encoding="utf-8",
        env=handrail.environment(),
        cwd=handrail.workspace,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert handrail("runs", "list", "--json").json["runs"][0]["prompt"] == "Do it"


FORMS = (
    "use PROVIDER:NAME with one of anthropic, gemini, openai, openai-chat; or FILE.py:NAME, or "
    "MODULE:NAME; `handrail models list` lists names"
)


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        (
            None,
            "no model is set",
            "choose one with `handrail init`, or pass `--model PROVIDER:NAME`",
        ),
        (
            "gpt-4o",
            "unknown model 'gpt-4o'",
            "did you mean `openai:gpt-4o`? Use PROVIDER:NAME",
        ),
        (
            "claude-x",
            "unknown model 'claude-x'",
            "did you mean `anthropic:claude-x`? Use PROVIDER:NAME",
        ),
        ("antropic:x", "unknown model 'antropic:x'", "did you mean `anthropic:x`?"),
        ("llama", "unknown model 'llama'", FORMS),
        ("nosuch:model", "unknown model 'nosuch:model'", FORMS),
        ("m.py", "unknown model 'm.py'", "add the name of the model in that file: `m.py:NAME`"),
        ("openai:", "'openai:' has no model name", "add it: `openai:NAME`"),
        (
            "m.py:SIZE",
            "m.py:SIZE is not a model: it is not callable",
            ("define `async def SIZE(request)`, and return a handrail.messages.Reply from it"),
        ),
    ],
)
def test_a_model_must_be_named(
    handrail: Handrail, model: str | None, message: str, hint: str
) -> None:
    handrail.write("m.py", "SIZE = 1\n")
    option = () if model is None else ("--model", model)

    ran = handrail("run", *option, "Go", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "no_model")
    assert (ran.error["message"], ran.error["hint"]) == (message, hint)


def test_a_model_without_a_key_ends_at_once_and_nothing_is_saved(handrail: Handrail) -> None:
    ran = handrail("run", "--model", "openai:gpt-4o", "Go", "--json")

    assert (ran.exit, ran.out, ran.error) == (
        2,
        "",
        {
            "code": "no_key",
            "message": "no API key for OpenAI",
            "hint": "set it: `export OPENAI_API_KEY=...`, or choose another model with "
            "`handrail init`",
            "exit": 2,
        },
    )
    assert not (handrail.state / "runs").exists()


def test_a_package_of_a_provider_may_be_missing(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)

    env = {"ANTHROPIC_API_KEY": "k"}
    ran = handrail("run", "--model", "anthropic:claude", "Go", "--json", env=env)

    assert (ran.exit, ran.error["code"]) == (2, "no_model")
    assert ran.error["hint"] == "run `pip install 'handrail[anthropic]'`"


def test_a_model_of_the_workspace_that_its_settings_name_must_be_trusted(
    handrail: Handrail,
) -> None:
    scripted(handrail, "'Done.'")
    env = {"HANDRAIL_MODEL": "m.py:model"}

    assert handrail("run", "Go", env=env).exit == 2
    assert handrail("run", "Go", *MODEL, env=env).exit == 0  # the command line is the user's word


def test_a_command_starts_in_the_folder_that_the_last_one_left(handrail: Handrail) -> None:
    (handrail.workspace / "web").mkdir()
    steps = ("[bash('cd web', 'c1')]", "[bash('touch here', 'c2')]", "'Done.'")
    ran = handrail("run", *scripted(handrail, *steps), "Go", "--mode", "open", "-q")

    assert (ran.exit, (handrail.workspace / "web/here").exists()) == (0, True)


DENIED = """[
    'Let me see.',
    write('a.txt', 'c1'),
    bash('tee .git/config', 'c2'),
    write('b.md', 'c3'),
    write('a.txt', 'c4'),
]"""
RULES = """
[[rule]]
id = "no-docs"
decide = "deny"
tools = ["write"]
access = ["write file:*.md"]
reason = "docs are mine"
"""


def rule_file(handrail: Handrail) -> Path:
    handrail.config.mkdir(parents=True, exist_ok=True)
    file = handrail.config / "rules.toml"
    file.write_text(RULES, encoding="utf-8")
    return file


def test_what_was_denied_is_listed_with_what_would_allow_it(handrail: Handrail) -> None:
    rule_file(handrail)

    ran = handrail("run", *scripted(handrail, DENIED, "'All done.'"), "Go", "-q")

    assert (ran.exit, ran.out) == (3, "Let me see.\nAll done.\n")
    assert settled(ran).replace(str(handrail.folder), "") == snapshot("""\
3 calls denied:
- write {"file_path": "a.txt", "content": "x"} (2 times)
    Allow `write` to change a.txt? [mode ask]
    to allow it, add this rule to REMEMBERED:
      [[rule]]
      id = "remembered-ID"
      decide = "allow"
      tools = ["write"]
      access = ["read file:a.txt", "write file:a.txt"]
      reason = "remembered on DATE"
      expires = DATE
- bash {"command": "tee .git/config"}
    Allow this command? `tee .git/config` (.git/config is protected: git runs hooks and commands from .git) [protected paths]
    no rule can allow it; to approve it yourself, pass `--on-denied suspend`
- write {"file_path": "b.md", "content": "x"}
    rule 'no-docs' denies changing b.md (docs are mine)
    denied by no-docs (/config/handrail/rules.toml:2); no allow rule can override that, so change this rule
""")


def test_denials_for_programs(handrail: Handrail, schema: Schemas) -> None:
    file = rule_file(handrail)

    ran = handrail("run", *scripted(handrail, DENIED, "'All done.'"), "Go", "--json")

    assert ran.exit == 3
    asked, never, ruled = sorted(
        schema("run", ran.json)["denials"], key=lambda one: str(one["call_id"])
    )
    assert (asked["cause"], asked["times"], never["cause"], ruled["cause"]) == (
        "asked",
        2,
        "asked",
        "rule",
    )
    assert 'decide = "allow"' in asked["allow"]["rule"]
    assert never["allow"] is None
    assert ruled["origin"] == {"rule": "no-docs", "file": str(file), "line": 2}
    assert ruled["advice"] == (
        f"denied by no-docs ({file}:2); no allow rule can override that, so change this rule"
    )


def test_the_rule_that_is_shown_does_allow_it(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")
    [denial] = handrail("run", *option, "Go", "--json").json["denials"]
    assert not (handrail.workspace / "a.txt").exists()
    file = Path(denial["allow"]["file"])
    file.parent.mkdir(parents=True)
    file.write_text(denial["allow"]["rule"], encoding="utf-8")

    ran = handrail("run", *option, "Go", "--json")

    assert (ran.exit, ran.json["denials"]) == (0, [])
    assert (handrail.workspace / "a.txt").read_text(encoding="utf-8") == "x"


def test_no_rule_is_shown_that_is_not_what_it_seems(handrail: Handrail) -> None:
    step = "[write('p\\u0430th.txt', 'c1'), write('a\\u202e.txt', 'c2'), write('a.txt', 'c3')]"

    ran = handrail("run", *scripted(handrail, step, "'Done.'"), "Go", "--json")

    shown = [one["allow"] is not None for one in ran.json["denials"]]
    assert (ran.exit, shown) == (3, [False, False, True])


def test_a_mode_that_lets_nothing_be_changed(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")

    ran = handrail("run", *option, "Go", "--mode", "plan", "--json")

    [denial] = ran.json["denials"]
    assert (ran.exit, denial["cause"]) == (3, "mode")
    assert denial["advice"] == "denied by mode plan; choose another mode with `--mode`"


def test_denied_calls_may_be_taken_as_they_are(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1')", "'Done.'")

    ran = handrail("run", *option, "Go", "--on-denied", "continue")

    assert (ran.exit, ran.out) == (0, "Done.\n")
    assert "1 call denied:" in ran.err


def test_long_arguments_are_shown_short(handrail: Handrail) -> None:
    option = scripted(handrail, "write('a.txt', 'c1', 'x' * 500)", "'Done.'")

    [denial] = handrail("run", *option, "Go", "--json").json["denials"]

    assert len(denial["args"]) == 200
    assert denial["args"].endswith("xxx ...")


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--max-turns", "2", "reached the limit of 2 turns"),
        ("--max-calls", "1", "reached the limit of 1 call"),
        ("--max-total-tokens", "20", "reached the limit of 20 tokens"),
        ("--max-seconds", "0.3", "reached the limit of 0.3 seconds"),
    ],
)
def test_limits_end_a_run(handrail: Handrail, option: str, value: str, why: str) -> None:
    code = """
import anyio

async def model(request):
    if len(request.messages) > 8:
        await anyio.sleep_forever()
    return Reply((glob(str(len(request.messages))),), "calls", Usage(input_tokens=9, output_tokens=1))
"""
    name = programmed(handrail, code)

    ran = handrail("run", *name, "Go", option, value, "--json")

    assert (ran.exit, *standing_of(ran.json), ran.json["why"]) == (5, "done", "limit", why)
    hint = f"to continue, raise it: `handrail runs resume {ran.json['id']} {option} N`"
    assert ran.err.splitlines()[-1] == hint


SYSTEM = """
async def model(request):
    return Reply((Text(request.system + "|" + ",".join(one.name for one in request.tools.specs)),))
"""


def told(handrail: Handrail, *options: str) -> Ran:
    return handrail("run", *programmed(handrail, SYSTEM), "Go", *options)


def test_what_a_model_is_told_first(handrail: Handrail) -> None:
    usual, own = told(handrail), told(handrail, "--system", "Be brief.")

    assert usual.out.startswith("You work on the files of one folder with tools.")
    assert own.out.startswith("Be brief.\n\nWhen this conversation started:\nFolder: ")


def test_instructions_and_skills_count_when_they_are_trusted(handrail: Handrail) -> None:
    handrail.write("AGENTS.md", "Use tabs.\n")
    handrail.write(
        ".agents/skills/tea/SKILL.md", "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n"
    )

    before = told(handrail)
    assert handrail("trust", "--yes", "AGENTS.md", ".agents/skills/tea").exit == 0
    after = told(handrail)

    assert "Use tabs." not in before.out
    assert "ignoring AGENTS.md: not trusted, or changed since you trusted it" in before.err
    assert "; review it with `handrail trust AGENTS.md`, or /trust in a chat\n" in before.err
    assert "Use tabs." in after.out
    assert "- tea: Makes tea." in after.out
    assert "skill" in after.out.rpartition("|")[2].strip().split(",")


def test_a_skill_that_cannot_be_used_is_reported(handrail: Handrail) -> None:
    handrail.write("../home/.agents/skills/tea/SKILL.md", "---\nname: tea\n---\nBoil.\n")

    ran = told(handrail)

    assert ran.exit == 0
    assert "skills/tea: the description is missing; the first paragraph is used\n" in ran.err


def test_scripts_of_the_users_skills_can_be_run() -> None:
    with TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as folder:
        handrail = made(Path(folder))  # commands do not see folders for temporary files
        handrail.write("../home/.agents/skills/other/run.sh", "echo other\n")
        handrail.write("../stored/tea/run.sh", "echo boiled\n")
        handrail.write("../stored/tea/SKILL.md", "---\nname: tea\ndescription: T.\n---\n")
        (Path(folder) / "home/.agents/skills/tea").symlink_to("../../../stored/tea")
        run = f"bash {folder}/stored/tea/run.sh; bash {folder}/home/.agents/skills/other/run.sh"
        steps = (f"[bash({f'({run}) > out 2> /dev/null'!r}, 'c1')]", "'Done.'")
        ran = handrail("run", *scripted(handrail, *steps), "Go", "--mode", "edits", "-q")
        printed = (handrail.workspace / "out").read_text(encoding="utf-8")

    assert (ran.exit, printed) == (0, "boiled\n")


def test_a_tool_may_not_have_the_name_of_another(handrail: Handrail) -> None:
    handrail.write(
        "../home/.agents/skills/tea/SKILL.md",
        "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n",
    )
    handrail.write(
        "t.py",
        "from handrail import tool\n\n@tool\nasync def skill() -> str:\n    '''F.'''\n    return ''\n",
    )

    ran = told(handrail, "--tools", "t.py", "--json")

    assert (ran.exit, ran.error["code"]) == (2, "tools")


def test_somebody_may_stop_reading(handrail: Handrail) -> None:
    option = scripted(handrail, "['x' * 200_000, glob('c1')]", "'never'")
    with subprocess.Popen(  # noqa: S603
        [forked.program(), "run", *option, "Go"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=handrail.environment(),
        cwd=handrail.workspace,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1
    assert "Traceback" not in said
    assert standings(handrail) == [("done", "interrupted")]


def test_a_run_that_cannot_be_saved_does_not_go_on(handrail: Handrail) -> None:
    # what JSON cannot say cannot be written down
    step = "Reply((write('a.txt', 'c1'),), 'calls', Usage(input_tokens=float('nan')))"

    ran = handrail("run", *scripted(handrail, step, "'Done.'"), "Go", "--json", "--mode", "edits")

    assert (ran.exit, ran.error["code"]) == (1, "unsaved")
    assert not (handrail.workspace / "a.txt").exists()


def events(handrail: Handrail) -> list[dict[str, Any]]:
    [saved] = journal_runs(handrail)
    return [line for line in saved.record.lines() if line["event"] != "status"]


def test_everything_is_in_the_journal(handrail: Handrail) -> None:
    handrail.write(
        "t.py",
        """
from handrail import READ, Context, Retry, Transient, tool

tries = []

@tool(effect=READ, retry=Retry(base=0, cap=0))
async def flaky(context: Context) -> str:
    '''Fails at first.'''
    context.progress("trying")
    tries.append(1)
    if len(tries) < 2:
        raise Transient("not yet")
    return "y" * 30_000
""",
    )
    option = scripted(
        handrail, "[Call('flaky', {}, 'c1'), write('b.txt', 'c2'), write('b.txt', 'c3')]", "'Done.'"
    )

    handrail("run", *option, "Go", "--tools", "t.py", "--tools", "coding", "--mode", "edits")

    seen = [(one["event"], one.get("call_id", "")) for one in events(handrail)]
    assert seen[0] == ("prompt", "")
    assert seen[-1] == ("reply", "")
    assert {name for name, call in seen if call == "c1"} == {
        "requested",
        "decided",
        "started",
        "progressed",
        "attempt_failed",
        "stored",
        "finished",
    }
    assert ("waiting", "c3") in seen


FORGETFUL = """
def reads(call_id):
    return Call("read", {"file_path": "long.txt"}, call_id)


async def model(request):
    results = [one for one in request.messages if isinstance(one, ToolResults)]
    if len(results) < 2:
        return Reply((reads(f"c{len(results)}"),), "calls")
    if "Left out" not in results[0].results[0].text:
        raise ModelError("The prompt is too long.", "too_long")
    return Reply((Text(results[0].results[0].text.partition(":")[0]),))
"""


def test_what_is_too_long_for_a_model_is_shortened(handrail: Handrail) -> None:
    handrail.write("long.txt", "a line of text\n" * 100)

    ran = handrail("run", *programmed(handrail, FORGETFUL), "Go", "--without", "bash")

    assert (ran.exit, ran.out) == (0, "[Left out\n")


PROGRAM = """
async def model(request):
    if isinstance(request.messages[-1], ToolResults):
        yield Reply((Text(request.messages[-1].results[0].text),))
        return
    code = "found = await glob(pattern='*.txt')\\nfound.splitlines()[0] + ' ' + await read(file_path='a.txt')"
    call = Call("run_program", {"code": code}, "c1")
    yield call
    yield Reply((call,), "calls")
"""


def test_a_program_reads_files_with_the_tools_that_read(handrail: Handrail) -> None:
    handrail.write("a.txt", "x")

    ran = handrail("run", *programmed(handrail, PROGRAM), "--programs", "Look")
    shown = handrail("runs", "show", "last")
    offered = handrail("run", *programmed(handrail, PROGRAM), "Look")

    assert (ran.exit, ran.out) == (0, "a.txt      1\tx\n")
    calls = re.findall(r"#\d +((?:└ )?\w+) .* (\w+)$", shown.out, re.MULTILINE)
    assert calls == [("run_program", "ok"), ("└ glob", "ok"), ("└ read", "ok")]
    assert "There is no tool" in offered.out
