"""The names of the doors, and why some cells have no test. Nothing here needs a door."""

from __future__ import annotations

OWN = ("Executor.run", "run_all", "run_all of a stream", "Turn.add", "run_sync", "in_thread")
AGENTS = ("Agent.run", "Agent.stream", "Agent.resume", "as_tool", "DurableRuns")
MCP = ("MCP in process", "MCP over HTTP", "MCP gateway")
HOSTS = ("pydantic_ai", "langgraph", "langchain", "openai_agents")

_OBJECT = "Arguments arrive as an object: the client has read the JSON."
_WHOLE = "An HTTP service sends its response, and no message about progress before it."
_BEFORE = (
    "The SDK asks only before a tool runs. The model reads what is needed, and tells the user."
)

NOT_POSSIBLE: dict[tuple[str, str], str] = {
    **{(row, "OpenAPI"): _WHOLE for row in ("progress", "progress of an approved call")},
    **{(row, door): _OBJECT for row in ("malformed JSON", "a key twice") for door in MCP},
    ("question of a sub-agent, answered later", "openai_agents"): _BEFORE,
    **{
        (row, "OpenAPI"): "The tool is in the service, and cannot ask while it runs."
        for row in ("context.may", "context.ask", "question of a sub-agent, answered later")
    },
}
"""Why a cell has no test, by row and door."""
