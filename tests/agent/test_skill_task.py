"""A skill runs as a sub-agent: what it reads, what it may do, and where its questions go."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, put, says
from handrail import Allow, Ask, Call, CheckedCall, Decision, Executor, FailureKind, Toolset
from handrail.agent import Agent, Skills, find_skills, load_state, skill_task_tool
from handrail.agent import dump_state as dump
from handrail.approvals import defer
from handrail.messages import Prompt
from handrail.testing import ScriptedModel


def make_skills(root: Path) -> Skills:
    for name in ("tea", "soup"):
        folder = root / ".agents/skills" / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Makes {name}.\n---\nBoil water.\n"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
    trusted = {file.path: file.content for file in find_skills(root).untrusted}
    return find_skills(root, trusted=lambda path, content: trusted[path] == content)


CALL = Call("skill_task", {"name": "tea", "task": "Make two cups."}, "s")
OUTER = by_turn(calls(CALL), says("All done."))


async def test_a_sub_agent_gets_the_skill_and_the_task(tmp_path: Path) -> None:
    skills, world = make_skills(tmp_path), World()
    inner = ScriptedModel("Two cups are ready.")
    async with Executor(world.tools | skills.tools) as executor:
        tools = skill_task_tool(skills, inner, executor, "look", "skill")
        done = await Agent(OUTER, tools).run("go")

    [request] = inner.requests
    assert request.tools.specs == executor.restrict("look", "skill").tools.specs
    assert request.messages == (
        Prompt.of(
            '<skill name="tea" folder=".agents/skills/tea">\nBoil water.\n</skill>'
            "\n\nMake two cups."
        ),
    )
    assert done.state.messages[2].results[0].text == "Two cups are ready."


async def test_the_tool_for_a_model(tmp_path: Path) -> None:
    skills, world = make_skills(tmp_path), World()
    async with Executor(world.tools | skills.tools) as executor:
        [spec] = skill_task_tool(skills, ScriptedModel(), executor, "look").specs
        [wide] = skill_task_tool(skills, ScriptedModel(), executor, "put").specs

    assert (spec.effect.name, wide.effect.name) == ("READ", "WRITE")
    assert (spec.name, spec.description, spec.input_schema) == snapshot(
        (
            "skill_task",
            """\
Give a task to a sub-agent that follows a skill, and get its answer.

Use it for a task that matches a skill's description, if you do not need to see its steps.\
""",
            {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "Name of the skill.",
                        "enum": ["soup", "tea"],
                    },
                    "task": {
                        "type": "string",
                        "description": "The task, with all necessary context. Nothing else is passed on.",
                    },
                },
                "required": ["name", "task"],
                "additionalProperties": False,
            },
        )
    )


async def test_a_call_touches_the_skill_and_everything_that_the_sub_agent_may(
    tmp_path: Path,
) -> None:
    skills, world = make_skills(tmp_path), World()
    async with Executor(world.tools) as executor:
        tools = skill_task_tool(skills, ScriptedModel(), executor, "put")
        async with Executor(tools) as outer:
            touched = outer.explain(CALL).accesses

    assert list(map(str, touched)) == [
        "read file:.agents/skills/tea",
        "read file:.agents/skills/tea/SKILL.md",
        "write *",
    ]


async def test_a_skill_that_is_no_longer_trusted_starts_no_sub_agent(tmp_path: Path) -> None:
    skills, inner = make_skills(tmp_path), ScriptedModel()
    (tmp_path / ".agents/skills/tea/run.sh").write_text("rm -rf ~\n", encoding="utf-8")
    async with Executor(Toolset()) as executor:
        done = await Agent(OUTER, skill_task_tool(skills, inner, executor)).run("go")

    [result] = done.state.messages[2].results
    assert result.failure is not None
    assert (result.failure.kind, inner.requests) == (FailureKind.DENIED, [])


async def test_a_question_of_the_sub_agent_is_answered_later_at_the_top(tmp_path: Path) -> None:
    skills, world = make_skills(tmp_path), World()
    inner = by_turn(calls(put("cup", "1")), says("The cup is there."))

    def ask_for_put(call: CheckedCall) -> Decision:
        return Ask("May it?") if call.name == "put" else Allow()

    async with Executor(world.tools, policy=ask_for_put) as executor:
        tools = skill_task_tool(skills, inner, executor, "put")
        async with Executor(tools, approvals=defer) as outer:
            agent = Agent(OUTER, outer)
            first = await agent.run("go")
            state = load_state(dump(first.state))
            [question] = [one.id for one in state.pending if one.question]
            done = await agent.resume(state, answers={question: Allow()})

    assert (first.stop_reason, done.output, world.did) == ("pending", "All done.", ["put cup"])
    assert done.state.messages[2].results[0].text == "The cup is there."


async def test_without_skills_there_is_no_tool() -> None:
    async with Executor(Toolset()) as executor:
        assert skill_task_tool(Skills(), ScriptedModel(), executor) == Toolset()
