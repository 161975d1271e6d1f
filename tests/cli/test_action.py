"""The GitHub Action: runs, with the variables and files that a runner gives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from action_steps import STEPS, Stepped, fake, inputs, outside_fences, step, variable
from cli_harness import Handrail
from cli_scripts import programmed, scripted
from doorman import doorman

HOSTILE = """\
::add-mask::handrail
::stop-commands::x
  ::set-output name=exit-code::0
##[add-path]/tmp/evil
```
</code></pre><img src=x onerror=alert(1)>
# A heading
[a link](https://evil.example)
~~~
exit-code<<x
0
x
\u202egnp.exe \x1b[2J\r# after a return
``````
"""


def run(handrail: Handrail, *model: str, **inputs: str) -> Stepped:
    """Run a task with a model in the workspace."""
    given = {"model": model[-1], "prompt": "Go"} | inputs
    return step(handrail, "run.py", {f"INPUT_{name.upper()}": text for name, text in given.items()})


def test_a_run_that_finishes_reports_answer_figures_and_changed_files(handrail: Handrail) -> None:
    usage = "usage=Usage(input_tokens=1200, output_tokens=34)"
    model = scripted(
        handrail,
        "[write('a.txt', 'c1'), bash('touch b.txt', 'c2')]",
        f"Reply((Text('Done.'),), {usage})",
    )

    ran = run(handrail, *model, mode="edits")

    document = Path(ran.outputs["json"])
    assert (ran.exit, ran.log) == (0, "handrail run: exit code 0, calls denied: 0\n")
    assert ran.outputs == {
        "exit-code": "0",
        "answer": "Done.",
        "run-id": json.loads(document.read_text(encoding="utf-8"))["id"],
        "denied": "0",
        "json": str(document),
        "log": str(document.with_name("log.txt")),
    }
    assert (
        ran.summary
        == """\
## handrail run: finished (exit code 0)

### Answer

```text
Done.
```

| turns | calls | tokens in | tokens out | cost at list prices |
|---|---|---|---|---|
| 2 | 2 | 1,200 | 34 | not known |

### Changed files (2)

```text
a.txt
b.txt
```

"""
    )
    assert {one.name for one in document.parent.iterdir()} == {"config", "log.txt", "run.json"}


def test_a_denied_call_is_shown_with_the_rule_that_then_allows_it(handrail: Handrail) -> None:
    model = scripted(handrail, "[write('a.txt', 'c1')]", "'Done.'")

    denied = run(handrail, *model, mode="ask")

    assert (denied.exit, denied.outputs["denied"]) == (3, "1")
    assert "To allow it, add this rule to the file of the input `rules-file`:" in denied.summary
    [rule] = re.findall(r"(?s)```text\n(\[\[rule\]\].*?)```", denied.summary)
    handrail.write("ci/rules.toml", rule)
    allowed = run(handrail, *model, mode="ask", rules_file="ci/rules.toml")
    assert (allowed.exit, allowed.outputs["denied"]) == (0, "0")


def test_a_hostile_answer_stays_inside_its_block_and_out_of_the_log(handrail: Handrail) -> None:
    hostile = HOSTILE + "`" * 90 + "\nno-key-of-ours k3y-0f-0urs"
    model = scripted(handrail, f"[{hostile!r}, write('a', 'c1', {hostile!r})]", repr(hostile))

    env = {"SOME_API_KEY": "k3y-0f-0urs", "INPUT_MODEL": model[-1], "INPUT_PROMPT": hostile}
    ran = step(handrail, "run.py", env)

    assert (ran.exit, ran.log) == (3, "handrail run: exit code 3, calls denied: 1\n")
    assert ran.outputs["exit-code"] == "3"
    assert ran.outputs["answer"].endswith("no-key-of-ours ***")
    assert (
        outside_fences(ran.summary).split()
        == (
            "## handrail run: finished, but calls were denied (exit code 3) ### Answer "
            "| turns | calls | tokens in | tokens out | cost at list prices | "
            "|---|---|---|---|---| | 2 | 1 | 0 | 0 | not known | ### Denied calls (1)"
        ).split()
    )
    assert "\\u{202e}gnp.exe \\u{1b}[2J\n# after a return" in ran.summary
    for name in ("json", "log"):
        assert "k3y-0f-0urs" not in Path(ran.outputs[name]).read_text(encoding="utf-8")


@given(st.text(st.characters() | st.sampled_from("`~\n\r <>#[]:")))
def test_no_text_leaves_its_block(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STEPS))
        from summary import fence  # type: ignore[import-not-found]

    blocks = MarkdownIt("commonmark").parse(f"{fence(text)}\nend")

    kinds = ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert [one.type for one in blocks] == kinds


def test_a_block_that_text_can_close_would_be_found() -> None:
    assert outside_fences("```text\n```\n<b>\n```\n").split() == ["<b>", "```"]


@pytest.mark.soak
def test_a_model_that_fails_is_reported(handrail: Handrail) -> None:
    code = "async def model(request):\n    raise ModelError('::error::it is ill', 'other')\n"

    ran = run(handrail, *programmed(handrail, code))

    assert (ran.exit, ran.log) == (1, "handrail run: exit code 1 (model_other), calls denied: 0\n")
    assert ran.summary.startswith(
        "## handrail run: failed (exit code 1)\n\n### Error\n\n```text\n::error::it is ill\n"
    )


@pytest.mark.soak
def test_a_provider_that_refuses_the_key_is_reported_without_it(handrail: Handrail) -> None:
    with doorman() as (url, keys):
        env = {"INPUT_MODEL": "openai:any", "INPUT_BASE_URL": url, "INPUT_PROMPT": "Go"}
        env |= {"INPUT_KEY_VARIABLE": "OURS", "OURS": "for-this-server"}
        ran = step(handrail, "run.py", env)

    assert keys == ["Bearer for-this-server"]
    assert (ran.exit, ran.log) == (6, "handrail run: exit code 6 (model_auth), calls denied: 0\n")
    assert "for-this-server" not in ran.summary + str(ran.outputs)


@pytest.mark.soak
def test_a_limit_is_reported(handrail: Handrail) -> None:
    model = scripted(handrail, "glob('c1')", "glob('c2')", "'Done.'")

    ran = run(handrail, *model, max_turns="2")

    assert (ran.exit, ran.outputs["exit-code"]) == (5, "5")
    assert "## handrail run: reached a limit (exit code 5)" in ran.summary


@pytest.mark.soak
def test_a_run_that_waits_shows_what_it_waits_for(handrail: Handrail) -> None:
    model = scripted(handrail, "[write('a.txt', 'c1')]", "'Done.'")

    ran = run(handrail, *model, mode="ask", on_denied="suspend")

    assert (ran.exit, "### Waiting for approval" in ran.summary) == (4, True)
    assert "Allow `write` to change a.txt?" in ran.summary


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"prompt": " "}, "pass a prompt, or a prompt-file"),
        ({"prompt_file": "../secret"}, "prompt-file leads out of working-directory"),
        ({"prompt_file": "link"}, "prompt-file leads out of working-directory"),
        ({"rules_file": "link"}, "rules-file leads out of working-directory"),
        ({"rules_file": "missing"}, "rules-file is not a file of at most 16,777,216 bytes"),
    ],
)
def test_an_input_that_cannot_be_used_ends_the_step_before_the_run(
    handrail: Handrail, inputs: dict[str, str], message: str
) -> None:
    (handrail.folder / "secret").write_text("secret", encoding="utf-8")
    (handrail.workspace / "link").symlink_to("../secret")

    ran = run(handrail, "m.py:model", **inputs)

    assert (ran.exit, ran.log.splitlines()[0]) == (2, f"handrail: {message}")
    assert ran.outputs == {"exit-code": "2", "answer": "", "run-id": "", "denied": "0", "json": ""}
    assert ran.summary == (
        f"## handrail run: did not start (exit code 2)\n\n### Error\n\n```text\n{message}\n```\n\n"
    )


RECORDS = """
import json, os, sys
with open(os.path.dirname(__file__) + "/record", "w") as file:
    json.dump([sys.argv[1:], sys.stdin.read(), dict(os.environ)], file)
sys.exit(7)
"""


CANCELLED = """
import os, signal, sys
signal.signal(signal.{name}, lambda *_: sys.exit({code}))
os.kill(os.getppid(), signal.{name})
signal.pause()
"""


@pytest.mark.parametrize(
    ("name", "code"), [("SIGTERM", 143), pytest.param("SIGINT", 130, marks=pytest.mark.soak)]
)
def test_a_cancelled_job_ends_the_run_and_is_reported(
    handrail: Handrail, name: str, code: int
) -> None:
    program = fake(handrail, "handrail", CANCELLED.format(name=name, code=code))

    ran = step(handrail, "run.py", {"INPUT_PROMPT": "Go"}, commands=program)

    assert (ran.exit, ran.outputs["exit-code"]) == (code, str(code))
    assert ran.log == f"handrail run: exit code {code}, calls denied: 0\n"


def test_inputs_are_options_and_the_prompt_is_not(handrail: Handrail) -> None:
    given = {variable(name): f"--{name}=x $(touch y)" for name in inputs()}
    handrail.write("--prompt-file=x $(touch y)", "from the file")
    handrail.write("--rules-file=x $(touch y)", "# rules")
    tokens = {"ACTIONS_RUNTIME_TOKEN": "x", "GITHUB_REPOSITORY": "ana/shop"}

    ran = step(handrail, "run.py", given | tokens, commands=fake(handrail, "handrail", RECORDS))

    record = json.loads((handrail.folder / "fake" / "record").read_text(encoding="utf-8"))
    arguments, prompt, environment = record
    single = [one for one in arguments if not one.startswith(("--allow-host", "--without"))]
    assert single == [
        *("run", "--json", "--no-input"),
        *("--model=--model=x $(touch y)", "--base-url=--base-url=x $(touch y)"),
        *("--key-variable=--key-variable=x $(touch y)", "--mode=--mode=x $(touch y)"),
        *("--on-denied=--on-denied=x $(touch y)", "--max-turns=--max-turns=x $(touch y)"),
        *("--max-calls=--max-calls=x $(touch y)", "--max-tokens=--max-tokens=x $(touch y)"),
        *("--max-total-tokens=--max-total-tokens=x $(touch y)",),
        *("--max-seconds=--max-seconds=x $(touch y)",),
    ]
    assert arguments[len(single) :] == [
        *("--allow-host=--allow-hosts=x", "--allow-host=$(touch", "--allow-host=y)"),
        *("--without=--without=x", "--without=$(touch", "--without=y)"),
    ]
    assert prompt == "--prompt=x $(touch y)\n\nfrom the file"
    own = [name for name in environment if name.startswith(("INPUT_", "GITHUB_", "ACTION"))]
    assert sorted(own) == ["GITHUB_ACTION_PATH", "GITHUB_REPOSITORY"]
    assert (ran.exit, ran.outputs["exit-code"]) == (7, "7")
    known = handrail("run", "--help").out
    assert [one for one in arguments[1:] if f"{one.partition('=')[0]} " not in known + " "] == []
