"""`handrail acp`, started and used by the client of the protocol's own package."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import (
    RequestError,
    audio_block,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.helpers import embedded_text_resource
from acp.schema import McpServerStdio

from cli.editors.editor import Editor, editing, say
from cli.test_provider_away import BUSY, PATIENT, cut, options
from cli_harness import Handrail
from models import dialects
from models.stage import provider

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


async def begin(agent: Any, folder: Path) -> str:
    session = await agent.new_session(cwd=str(folder), mcp_servers=[])
    return str(session.session_id)


async def test_an_editor_shows_text_calls_questions_and_diffs(handrail: Handrail) -> None:
    here = handrail.workspace
    editor = Editor("allow", "deny")
    async with editing(handrail, editor) as agent:
        session = await begin(agent, here)
        assert await say(agent, session, "answer") == "end_turn"
        assert editor.text() == "Hello from the model."
        assert editor.kinds().count("agent_message_chunk") > 1

        assert await say(agent, session, "edit") == "end_turn"
        assert await say(agent, session, "pay") == "end_turn"

    diff = {"type": "diff", "path": str(here / "a.txt"), "newText": "new\n"}
    edit, pay = editor.calls().values()
    assert edit["content"] == [diff]
    assert {name: edit[name] for name in ("title", "kind", "status", "locations")} == {
        "title": "Write a.txt",
        "kind": "edit",
        "status": "completed",
        "locations": [{"path": str(here / "a.txt")}],
    }
    assert (pay["kind"], pay["status"]) == ("other", "failed")
    (about, options), (_, paid) = editor.questions
    assert options == {
        "allow": "Yes",
        "edits": "Yes, and all edits in this conversation",
        "deny": "No",
    }
    assert about.content[0].model_dump(by_alias=True, exclude_none=True) == diff
    assert [*paid] == ["allow", "run", "project", "deny"]
    assert not (here / "paid").exists()


async def test_each_call_of_a_program_is_shown_and_asked_about_below_it(handrail: Handrail) -> None:
    here, editor = handrail.workspace, Editor("allow", "deny")
    async with editing(handrail, editor, "--programs") as agent:
        assert await say(agent, await begin(agent, here), "programs") == "end_turn"

    shown = [(name, one["title"], one["status"]) for name, one in editor.calls().items()]
    assert shown == [
        ("call-1", "run_program await pay(number=1)", "completed"),
        ("call-2", "└ pay 1", "completed"),
        ("call-3", "run_program await glob(pattern='*') …", "failed"),
        ("call-4", "└ List *", "completed"),
        ("call-5", "└ pay 2", "failed"),
    ]
    assert [about.tool_call_id for about, _ in editor.questions] == ["call-2", "call-5"]
    assert (here / "paid").read_text(encoding="utf-8") == "1\n"


@pytest.mark.parametrize("how", ["left", pytest.param("closed", marks=pytest.mark.soak)])
async def test_a_question_survives_a_restart(handrail: Handrail, how: str) -> None:
    """An editor that closes leaves the call open; the next one is asked again, and it runs once."""
    here = handrail.workspace
    first = Editor("never")
    async with editing(handrail, first) as agent:
        session = await begin(agent, here)
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                with suppress(ConnectionError):
                    assert await say(agent, session, "pay") == "end_turn"

            group.start_soon(ask)
            await first.asked.wait()
            if how == "closed":
                await agent.close_session(session)
            else:
                await agent.close()
    assert not (here / "paid").exists()

    second = Editor("allow")
    async with editing(handrail, second) as agent:
        listed = await agent.list_sessions(cwd=str(here))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(session, "pay")]
        await agent.load_session(cwd=str(here), session_id=session, mcp_servers=[])
        assert second.kinds() == ["user_message_chunk", "tool_call"]
        done = await agent.prompt(session_id=session, prompt=[])

    assert (done.stop_reason, second.text()) == ("end_turn", "Paid.")
    [call] = second.calls().values()
    assert (call["status"], (here / "paid").read_text(encoding="utf-8")) == ("completed", "1\n")
    assert call["content"] == [
        {"type": "content", "content": {"type": "text", "text": "````\npaid 1 ```\n````"}}
    ]


async def test_a_question_shows_a_request_from_its_beginning(handrail: Handrail) -> None:
    """Escapes make a request longer than the output of a tool that an editor shows."""
    editor = Editor("deny")
    async with editing(handrail, editor) as agent:
        session = await begin(agent, handrail.workspace)
        assert await say(agent, session, "padded") == "end_turn"

    [(about, options)] = editor.questions
    [shown] = about.content
    text = shown.content.text.replace("\n┊ ", "")
    assert ("allow" in options, "send the secret" in text) == (True, True)
    assert about.title.startswith("Note send the secret\\u{7F}?")
    assert text.count("\\u{7F}") == 9_001


@pytest.mark.soak
async def test_a_cancelled_turn_runs_nothing(handrail: Handrail) -> None:
    editor = Editor("never")
    stops: list[str] = []
    async with editing(handrail, editor) as agent:
        session = await begin(agent, handrail.workspace)
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                stops.append(await say(agent, session, "pay"))

            group.start_soon(ask)
            await editor.asked.wait()
            await agent.cancel(session_id=session)
        stops.append(await say(agent, session, "answer"))

    [call] = editor.calls().values()
    assert (stops, editor.text()) == (["cancelled", "end_turn"], "Hello from the model.")
    assert (call["status"], (handrail.workspace / "paid").exists()) == ("failed", False)


async def test_modes_plans_files_and_images(handrail: Handrail) -> None:
    here = handrail.workspace
    editor = Editor("edits")
    async with editing(handrail, editor) as agent:
        opened = await agent.new_session(cwd=str(here), mcp_servers=[])
        session = opened.session_id
        assert opened.modes.current_mode_id == "ask"
        assert [mode.id for mode in opened.modes.available_modes][:3] == ["plan", "ask", "edits"]

        assert await say(agent, session, "edits") == "end_turn"
        assert len(editor.questions) == 1, "the second edit is allowed by the mode"
        assert "current_mode_update" in editor.kinds()

        await agent.set_session_mode(session_id=session, mode_id="plan")
        await say(agent, session, "edit")
        assert [*editor.calls().values()][-1]["status"] == "failed"
        with pytest.raises(RequestError):
            await agent.set_session_mode(session_id=session, mode_id="none")

        attached = resource_block(embedded_text_resource(f"file://{here}/m.py", "x = 1"))
        picture = image_block("iVBORw0KGgo=", "image/png")
        prompt = [text_block("answer"), attached, picture]
        assert (await agent.prompt(session_id=session, prompt=prompt)).stop_reason == "end_turn"
        editor.updates.clear()
        await agent.load_session(cwd=str(here), session_id=session, mcp_servers=[])
        said = [
            one["content"] for one in editor.updates if one["sessionUpdate"] == "user_message_chunk"
        ]
    assert said[-3:] == [
        {"type": "text", "text": "answer"},
        {"type": "text", "text": '\n<file path="m.py">\nx = 1\n</file>\n'},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]


async def test_what_cannot_be_done_is_an_error_with_words(handrail: Handrail) -> None:
    editor = Editor()
    async with editing(handrail, editor) as agent:
        with pytest.raises(RequestError, match="Invalid params") as refused:
            await agent.new_session(cwd="/no/such/folder", mcp_servers=[])
        assert refused.value.data == {"details": "There is no folder '/no/such/folder'."}
        with pytest.raises(RequestError, match="there is no run 'x'"):
            await agent.load_session(cwd=str(handrail.workspace), session_id="x", mcp_servers=[])
        with pytest.raises(RequestError, match="Invalid params"):
            await say(agent, "x", "answer")


async def test_rules_long_requests_plans_commands_and_attachments(handrail: Handrail) -> None:
    here = handrail.workspace
    handrail.write("../config/handrail/commands/hello.md", "answer")
    handrail.write(".handrail/commands/evil.md", "pay")
    editor = Editor("project", "deny")
    server = McpServerStdio(name="files", command="files", args=[], env=[])
    async with editing(handrail, editor) as agent:
        opened = await agent.new_session(cwd=str(here), mcp_servers=[server])
        session = opened.session_id
        for script in ("pay", "pay", "long", "plan", "again"):
            assert await say(agent, session, script) == "end_turn"
        with pytest.raises(RequestError, match=r"The server is away. Start it."):
            await say(agent, session, "away")
        link = resource_link_block("m.py", f"file://{here}/m.py")
        page = resource_link_block("page", "https://example.org/a b")
        prompt = [text_block("/hello"), link, page]
        await agent.prompt(session_id=session, prompt=prompt)
        with pytest.raises(RequestError, match="Invalid params"):
            await agent.prompt(session_id=session, prompt=[audio_block("", "audio/wav")])
        said = editor.text()
        plan = [one for one in editor.updates if one["sessionUpdate"] == "plan"]
        commands = [
            one["availableCommands"]
            for one in editor.updates
            if one["sessionUpdate"] == "available_commands_update"
        ]
        editor.updates.clear()
        await agent.load_session(cwd=str(here), session_id=session, mcp_servers=[])
        [*_, name, attached, linked] = [
            one["content"]["text"]
            for one in editor.updates
            if one["sessionUpdate"] == "user_message_chunk"
        ]

    assert [(*options,) for _, options in editor.questions] == [
        ("allow", "run", "project", "deny"),
        ("deny",),
    ]
    assert (here / "paid").read_text(encoding="utf-8") == "1\n1\n"
    assert (name, attached, linked) == (
        "answer",
        "\n[attached: m.py]\n",
        "\n[attached: https://example.org/a b]\n",
    )
    assert [[one["name"] for one in several] for several in commands] == [["hello"]]
    assert [(one["content"], one["status"]) for [step] in [plan] for one in step["entries"]] == [
        ("Look", "in_progress"),
        ("Fix", "pending"),
    ]
    assert "MCP servers of the editor are not used: files." in said
    assert "Half of\n\n*The reply starts again: The connection was lost.*\n\nAll of it." in said


async def test_a_turn_is_stopped_with_its_command(handrail: Handrail) -> None:
    editor = Editor("allow")
    stops: list[str] = []
    async with editing(handrail, editor) as agent:
        session = await begin(agent, handrail.workspace)
        async with anyio.create_task_group() as group:

            async def work() -> None:
                stops.append(await say(agent, session, "job"))

            group.start_soon(work)
            await editor.until("started")
            with pytest.raises(RequestError, match="Invalid request"):
                await say(agent, session, "answer")
            await agent.cancel(session_id=session)
    assert stops == ["cancelled"]


async def test_the_model_asks_the_person(handrail: Handrail) -> None:
    editor = Editor("0", "1", "none")
    async with editing(handrail, editor, "--mode", "plan") as agent:
        session = await begin(agent, handrail.workspace)
        await say(agent, session, "finish")
        [mode] = [one for one in editor.updates if one["sessionUpdate"] == "current_mode_update"]
        editor.updates.clear()
        await say(agent, session, "ask")
        await say(agent, session, "ask")

    assert mode["currentModeId"] == "edits"
    plan = {"0": "Continue in edits", "1": "Continue in ask", "2": "Change the plan"}
    colors = {"0": "red", "1": "blue"}
    assert [(about.title, options) for about, options in editor.questions] == [
        ("Carry out this plan?", {**plan, "none": "None of these"}),
        *[("Which one?", {**colors, "none": "None of these"})] * 2,
    ]
    results = [str(call["content"]) for call in editor.calls().values()]
    assert ["blue" in one for one in results] == [True, False, False, False]
    assert "*Why?*" in editor.text()


async def test_an_editor_reads_what_the_model_waits_for(handrail: Handrail) -> None:
    called, told = dialects.anthropic()
    editor = Editor()
    with provider(*[BUSY] * 8, called, cut(told), told) as stage:
        model = options(handrail, stage, "anthropic")
        async with editing(handrail, editor, *model, env=PATIENT) as agent:
            session = await begin(agent, handrail.workspace)
            assert await say(agent, session, "1 + 2?") == "end_turn"

    assert (handrail.folder / "log").read_text(encoding="utf-8") == "added\n"
    assert (len(stage.asked), len(editor.calls())) == (11, 1)
    said = editor.text()
    assert "*The model: overloaded, trying again (9 of 10).*" in said
    assert said.endswith("It is 3.")


async def test_a_form_with_one_choice_is_answered_in_the_editor(handrail: Handrail) -> None:
    editor = Editor("value-1", "value-0", "allow", "cancelled")
    async with editing(handrail, editor) as agent:
        session = await begin(agent, handrail.workspace)
        await say(agent, session, "values")
        results = [str(call["content"]) for call in editor.calls().values()]
        await say(agent, session, "text")

    said = ["chosen: {'colour': 'blue'}", "chosen: {'gift': True}", "chosen: {}"]
    assert [any(one in text for text in results) for one in said] == [True, True, True]
    assert sorted(str(options) for _, options in editor.questions) == sorted(
        [
            str({"value-0": "Which colour: red", "value-1": "Which colour: blue", "deny": "No"}),
            str({"value-0": "gift: Yes", "value-1": "gift: No", "deny": "No"}),
            str({"allow": "Agree", "deny": "No"}),
            str({"deny": "No"}),
        ]
    )
