"""What a person does all day in a chat, at a terminal of which the test holds the other end."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.terminal import Open, Pty, Tmux, opened
from cli.test_input_in_tmux import AT
from cli_harness import Handrail
from cli_runs import journal_runs

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
MODEL = """
from handrail import Call, File, Image, Text
from handrail.messages import Prompt, Reply


def describe(part):
    if isinstance(part, Text):
        return part.text
    return f"<{type(part).__name__} {getattr(part, 'name', part.media_type)} {len(part.data)}>"


async def model(request):
    last = request.messages[-1]
    if not isinstance(last, Prompt):
        yield Reply((Text("Changed."),))
        return
    said = " | ".join(map(describe, last.parts))
    if said.endswith("mark"):
        args = {"file_path": "notes.txt", "old_string": "two", "new_string": "2"}
        yield Reply((Call("edit", args, f"c{len(request.messages)}"),), "calls")
    elif said.endswith("serve"):
        args = {"command": "echo began; sleep 100"}
        yield Reply((Call("bash", args, f"c{len(request.messages)}"),), "calls")
    elif said.endswith("wait"):
        args = {"command": "mkfifo pipe; echo began; read line < pipe; echo had $line"}
        yield Reply((Call("bash", args, f"c{len(request.messages)}"),), "calls")
    elif said.endswith("change"):
        yield Reply((Call("bash", {"command": CHANGES}, f"c{len(request.messages)}"),), "calls")
    elif said.endswith("system"):
        yield Reply((Text("It knows the note." if "Be brief." in request.system else "It is new."),))
    else:
        yield Reply((Text(f"Heard {said!r}."),))
"""
DENIED = '[[rule]]\nid = "no"\ndecide = "deny"\naccess = ["read file:.secret"]\n'
CHANGES = "printf 'b\\0' > data.bin; mkdir build; echo x > build/out; echo two > plain.txt"
READY = "Describe a change"
Chat = Callable[..., Pty]


@pytest.fixture
def chat(handrail: Handrail) -> Iterator[Chat]:
    """Begins a chat with the input."""
    opened: list[Pty] = []

    def begin(*arguments: str, **env: str) -> Pty:
        handrail.write("model.py", f"CHANGES = {CHANGES!r}\n{MODEL}")
        handrail.write("notes.txt", "one\ntwo\n")
        words = ("chat", "--model", "model.py:model", "--mode", "edits", *arguments)
        opened.append(Pty(handrail, *words, env={"HANDRAIL_PLAIN": "", **env}))
        opened[-1].sees(READY)
        return opened[-1]

    yield begin
    for one in opened:
        one.end()


def ends(pty: Pty) -> int:
    pty.types("\x04")
    return pty.ends()


def test_a_file_anywhere_is_found_by_some_letters_and_attached(
    chat: Chat, handrail: Handrail
) -> None:
    handrail.write("src/shop/cart.py", "items = []\nprice = 1\n")
    handrail.write(".gitignore", "build/\n")
    handrail.write("build/cart_built.py", "x\n")
    pty = chat("--without", "bash")
    pty.types("explain @shcart")
    pty.sees("@src/shop/cart.py")
    assert "cart_built" not in pty.seen
    pty.types("\t\r\r")
    pty.sees("attached src/shop/cart.py, 2 lines")
    pty.sees("Heard '<File src/shop/cart.py 21> | explain @src/shop/cart.py'.")

    assert ends(pty) == 0


def test_only_what_may_be_read_is_attached(chat: Chat, handrail: Handrail) -> None:
    handrail.write("data.bin", "\x00\x01")
    (handrail.workspace / "data.bin").write_bytes(b"\xff\xfe\x00")
    handrail.write(".secret", "KEY=1\n")
    rules = handrail.config / "rules.toml"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(DENIED, encoding="utf-8")
    rules.chmod(0o600)
    handrail.write("big.txt", "x" * 100_001)
    pty = chat("--without", "bash")
    pty.types("see @data.bin, @.secret @big.txt @nothing.txt me@example.org\r")
    pty.sees("data.bin is not attached: it is neither text nor an image")
    pty.sees(".secret is not attached: a rule denies reading it")
    pty.sees("big.txt is not attached: it is larger than 100,000 bytes")
    pty.sees("Heard 'see @data.bin, @.secret @big.txt @nothing.txt me@example.org'.")

    assert ends(pty) == 0


def test_images_are_attached_by_path_and_from_the_clipboard(
    chat: Chat, handrail: Handrail, tmp_path: Path
) -> None:
    shot = tmp_path / "my shot.png"
    shot.write_bytes(PNG)
    programs = tmp_path / "programs"
    programs.mkdir()
    clip = programs / "wl-paste"
    clip.write_text(f"#!/bin/sh\ncat '{shot}'\n", encoding="utf-8")
    clip.chmod(0o700)
    pty = chat("--without", "bash", PATH=f"{programs}:/usr/bin:/bin")
    pty.types(f"\x1b[200~'{shot}'\x1b[201~ see\r")
    pty.sees("attached my shot.png, 28 bytes")
    pty.sees("<Image image/png 28>")
    pty.types("and ")
    pty.types("\x16")
    pty.sees("[image 1]")
    pty.types("\r")
    pty.sees("attached image 1, 28 bytes")
    pty.sees("Heard '<Image image/png 28> | and [image 1]'.")

    assert ends(pty) == 0


def test_a_command_of_the_person_runs_in_the_sandbox_and_the_model_reads_it(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat()
    pty.types("!cat notes.txt; touch /made-here\r")
    pty.sees("one")
    pty.sees("two")
    pty.sees("Read-only file system")
    pty.sees("exit code 1")
    pty.types("!sleep 100\r")
    pty.sees("working")
    pty.types("\x1b")
    pty.sees("stopped")
    pty.types("go on\r")
    pty.sees("Heard")

    assert ends(pty) == 0
    [saved] = journal_runs(handrail)
    prompt = saved.state().messages[0]
    heard = [re.sub(r"\d+\.\d s", "N s", part.text) for part in prompt.parts]
    assert heard == snapshot(
        [
            """\
I ran this command in the sandbox:
$ cat notes.txt; touch /made-here
one
two
touch: cannot touch '/made-here': Read-only file system
[/made-here is read-only: commands can write only the workspace and $TMPDIR.]
[exit code 1, N s]\
""",
            "go on",
        ]
    )


RULES = """
[[rule]]
id = "no-push"
decide = "deny"
tools = ["bash"]
command = ["git push"]
reason = "releases are pushed by CI"

[[rule]]
id = "look-first"
decide = "ask"
tools = ["bash"]
command = ["touch *"]
"""


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("user", "rule 'no-push' denies `git push` (releases are pushed by CI)"),
        ("project", "rule 'a rule that is not trusted yet' denies `git push`"),
    ],
)
def test_a_typed_command_obeys_rules_that_deny_but_needs_no_approval(
    chat: Chat, handrail: Handrail, place: str, why: str
) -> None:
    user = handrail.config / "rules.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    file = user if place == "user" else handrail.workspace / ".handrail" / "rules.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(RULES, encoding="utf-8")
    pty = chat("--mode", "plan")
    pty.types("!git push --dry-run origin\r")
    pty.sees("denies `git push`")
    pty.types("!touch made; echo made it\r")
    pty.sees("exit code 0")
    pty.types("go on\r")
    pty.sees("Heard")

    assert ends(pty) == 0
    assert (handrail.workspace / "made").exists()
    [saved] = journal_runs(handrail)
    refused = saved.state().messages[0].parts[0].text
    assert refused == (
        f"I ran this command in the sandbox:\n$ git push --dry-run origin\nNot run: {why}. "
        "Do not work around this. Continue without it, or tell the user."
    )


def test_a_note_is_added_to_the_instructions_and_the_model_knows_it(
    chat: Chat, handrail: Handrail
) -> None:
    pty = chat("--without", "bash")
    pty.types("# Be brief.\r")
    pty.sees("created AGENTS.md")
    pty.types("# Be kind.\r")
    pty.sees("added a line to AGENTS.md")
    pty.types("system\r")
    pty.sees("It knows the note.")

    assert ends(pty) == 0
    notes = (handrail.workspace / "AGENTS.md").read_text(encoding="utf-8")
    assert notes == "- Be brief.\n- Be kind.\n"


def test_instructions_of_others_stay_untrusted_until_they_are_reviewed_in_the_chat(
    chat: Chat, handrail: Handrail
) -> None:
    handrail.write("AGENTS.md", "Be brief.\n")
    pty = chat("--without", "bash")
    pty.types("# Be kind.\r")
    pty.sees("added a line to AGENTS.md")
    pty.types("system\r")
    pty.sees("It is new.")
    pty.types("/trust yes\r")
    pty.sees("AGENTS.md was not shown with this content, and is not trusted")
    pty.types("/trust\r")
    pty.sees("│ - Be kind.")
    pty.sees("type /trust yes to trust this content of")
    handrail.write("AGENTS.md", "Be brief. And more.\n")
    pty.types("/trust yes\r")
    pty.sees("AGENTS.md was not shown with this content, and is not trusted")
    pty.types("/trust\r")
    pty.sees("And more.")
    pty.types("/trust yes\r")
    pty.sees("trusted AGENTS.md (instructions)")
    pty.types("system\r")
    pty.sees("It knows the note.")

    assert ends(pty) == 0


def test_going_back_to_a_message_restores_files_and_the_conversation(
    chat: Chat, handrail: Handrail
) -> None:
    notes = handrail.workspace / "notes.txt"
    pty = chat("--without", "bash")
    pty.types("hello\r")
    pty.sees("Heard 'hello'.")
    pty.types("mark\r")
    pty.sees("Changed.")
    assert notes.read_text(encoding="utf-8") == "one\n2\n"
    pty.types("/rewind\r")
    pty.sees("2  mark")
    pty.types("\r")  # the first choice is the last message
    pty.sees("undid the last change to notes.txt")
    pty.sees("back before message 2")
    pty.sees("mark")  # the message is in the input again
    pty.types(" it not\r")
    pty.sees("Heard 'mark it not'.")

    assert ends(pty) == 0
    assert notes.read_text(encoding="utf-8") == "one\ntwo\n"
    [saved] = journal_runs(handrail)
    said = [one.parts[-1].text for one in saved.state().messages if type(one).__name__ == "Prompt"]
    assert said == ["hello", "mark it not"]


def test_a_run_is_picked_by_its_first_words(chat: Chat, handrail: Handrail) -> None:
    subprocess.run(["git", "init", "-q", "-b", "cart", str(handrail.workspace)], check=True)  # noqa: S603, S607
    for words in ("first words", "other matter"):
        pty = chat("--without", "bash")
        pty.types(f"{words}\r")
        pty.sees("Heard")
        assert ends(pty) == 0
    pty = chat("--without", "bash")
    pty.types("/resume\r")
    pty.sees("other matter")
    pty.sees("cart, done")
    pty.types("first")
    pty.sees("▸")
    pty.types("\r")
    pty.sees("Heard 'first words'.")

    assert ends(pty) == 0


@pytest.fixture
def pane(handrail: Handrail) -> Iterator[Callable[..., Tmux]]:
    """Begins a chat whose screen can be read."""
    handrail.write("model.py", f"CHANGES = {CHANGES!r}\n{MODEL}")

    def begin(start: Open, *arguments: str, **env: str) -> Tmux:
        one = start(80, 40)
        words = ("chat", "--model", "model.py:model", "--mode", "edits", *arguments)
        one.runs(*words, env={"HANDRAIL_PLAIN": "", **env})
        one.shows(READY)
        return one

    yield from (partial(begin, start) for start in opened(handrail))


def test_a_search_shows_the_message_while_it_is_typed_and_says_if_there_is_none(
    pane: Callable[..., Tmux],
) -> None:
    screen = pane("--without", "bash")
    for words in ("mend the Cart", "look at it"):
        screen.types(words)
        screen.shows(f"Heard '{words}'.")
        screen.shows(READY)
    screen.presses("C-r")
    screen.types("cart", enter=False)
    found = screen.shows("search: cart")[-3:]
    screen.types("zz", enter=False)
    screen.shows("no match: cartzz")
    screen.presses("BSpace", "BSpace")
    screen.shows("search: cart")
    screen.presses("Enter")
    screen.types(" again")
    screen.shows("Heard 'mend the Cart again'.")

    assert found == [f"{AT}mend the Cart", "  search: cart", "  edits · model.py:model · ws"]


def test_a_model_is_picked_by_some_letters_of_its_name(pane: Callable[..., Tmux]) -> None:
    screen = pane("--without", "bash", OPENAI_API_KEY="k")
    screen.types("/model")
    first = next(row for row in screen.shows("in use") if "in use" in row).split()
    screen.types("4o-mini", enter=False)
    screen.shows(f"{AT}/model 4o-mini")
    one = screen.shows("$0.15 in")[-2:]
    screen.presses("Escape")
    screen.shows(f"{AT}{READY}")  # nothing is left of the command
    screen.types("/model")
    screen.shows("in use")
    screen.types("4o-mini", enter=False)
    screen.shows("  ▸ openai:gpt-4o-mini  $0.15 in")
    screen.presses("Enter")
    screen.shows("edits · openai:gpt-4o-mini · ws")

    assert first == ["▸", "model.py:model", "in", "use"]
    assert one == ["  ▸ openai:gpt-4o-mini  $0.15 in, $0.60 out", "  edits · model.py:model · ws"]


def test_esc_twice_offers_the_messages_to_go_back_to(pane: Callable[..., Tmux]) -> None:
    screen = pane("--without", "bash")
    screen.types("hello")
    screen.shows("Heard 'hello'.")
    screen.shows(READY)
    screen.presses("Escape")
    screen.presses("Escape")
    screen.shows("▸   1  hello")
    screen.presses("Enter")
    screen.shows("back before message 1")
    screen.shows(f"{AT}hello", times=2)


def test_a_job_that_ends_is_told_and_no_longer_listed(pane: Callable[..., Tmux]) -> None:
    screen = pane()
    screen.types("wait")
    screen.shows("│ began")
    screen.shows("Ctrl+B: background")
    screen.presses("C-b")
    screen.shows("started as job 1")
    screen.shows("edits · model.py:model · ws · 1 job")
    screen.types("!echo go > pipe")
    screen.shows("│ had go")
    screen.types("/jobs")
    screen.shows("no jobs: no command runs in the background")
    screen.shows("edits · model.py:model · ws\n")

    assert "✓ Job 1  mkfifo pipe; echo began; read line < pipe;" in screen.screen()


def test_the_diff_has_neither_ignored_nor_binary_files(chat: Chat, handrail: Handrail) -> None:
    subprocess.run(["git", "init", "-q", str(handrail.workspace)], check=True)  # noqa: S603, S607
    handrail.write(".gitignore", "build/\n")
    pty = chat()
    pty.types("change\r")
    pty.sees("Changed.")
    pty.types("/diff\r")
    shown = pty.sees("1 ignored file not shown")

    assert "plain.txt" in shown
    assert "data.bin: a binary file" in shown
    assert "build/out" not in shown
    assert ends(pty) == 0


def test_a_running_command_continues_in_the_background(chat: Chat, handrail: Handrail) -> None:
    pty = chat()
    pty.types("serve\r")
    pty.sees("began; sleep 100")
    pty.sees("began")
    pty.types("\x02")
    pty.sees("started as job 1")
    pty.sees("Changed.")
    pty.types("/jobs\r")
    pty.sees("Job 1")
    pty.sees("“began”")

    assert ends(pty) == 0
    assert pty.left_over(handrail.workspace) == []
    [saved] = journal_runs(handrail)
    [results] = [one for one in saved.state().messages if type(one).__name__ == "ToolResults"]
    text = re.sub(r"running for \d+ s", "running for N s", results.results[0].text)
    assert text == snapshot("""\
The user sent this command to the background. It continues as job 1.
began
[job 1, running for N s. Next: since=6.]\
""")


def test_the_input_is_drawn_before_the_agent_is_loaded() -> None:
    """What is loaded for it takes a third of the time until the chat is ready."""
    code = (
        "import sys, handrail.cli.commands.chat, handrail.cli._input.area\n"
        "slow = ('agent', 'coding', 'models', 'policy', 'runs', 'sandbox', 'cli._chat.talk')\n"
        "print([name for name in slow if f'handrail.{name}' in sys.modules])\n"
    )
    loaded = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )

    assert loaded.stdout == "[]\n"
