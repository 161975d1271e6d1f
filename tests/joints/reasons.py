"""The names of the doors, and why some cells have no test. Nothing here needs a door."""

from __future__ import annotations

OWN = ("Executor.run", "run_all", "run_all of a stream", "Turn.add", "run_sync", "in_thread")
AGENTS = ("Agent.run", "Agent.stream", "Agent.resume", "as_tool", "DurableRuns")
MCP = ("MCP in process", "MCP over HTTP", "MCP gateway")
HOSTS = ("pydantic_ai", "langgraph", "langchain", "openai_agents")

_THREAD = "The caller is a thread that waits, and threads cannot be cancelled."
_OBJECT = "Arguments arrive as an object: the client has read the JSON."
_YES_OR_NO = "The client's or framework's user can approve or deny a call, and not change it."
_WHOLE = "A result of MCP, or of an HTTP service, is sent as a whole."
_BEHIND = "The policy and the approver are the gateway's, and the server behind it is not told."
_NEXT = "Each request is a separate turn, and a client sends the next one."
_BEFORE = (
    "The SDK asks only before a tool runs. The model reads what is needed, and tells the user."
)

_ALONE = "A client of MCP sends calls, and not what its user wrote."
_UNMARKED = "A server's results have no markers, so none of their values is your own."

NOT_POSSIBLE: dict[tuple[str, str], str] = {
    **{("cancelled by the caller", door): _THREAD for door in ("run_sync", "in_thread")},
    ("principal", "MCP in process"): "A program that starts the server is its only user.",
    **{("output in pieces", door): _WHOLE for door in (*MCP, "OpenAPI")},
    **{(row, "OpenAPI"): _WHOLE for row in ("progress", "progress of an approved call")},
    **{("approval of changed arguments", door): _YES_OR_NO for door in (*MCP, "openai_agents")},
    **{(row, door): _OBJECT for row in ("malformed JSON", "a key twice") for door in MCP},
    **{("StopRun", door): _NEXT for door in ("MCP over HTTP", "MCP gateway")},
    **{
        (row, "openai_agents"): _BEFORE
        for row in ("login", "context.may", "question of a sub-agent, answered later")
    },
    **{
        (row, "OpenAPI"): "The tool is in the service, and cannot ask while it runs."
        for row in ("context.may", "question of a sub-agent, answered later")
    },
    **{("sources: names from the user", door): _ALONE for door in MCP},
    **{("sources: names from own systems", door): _UNMARKED for door in ("MCP gateway", "OpenAPI")},
    **{
        (row, "MCP gateway"): _BEHIND
        for row in (
            "context.may",
            "is_approved, the policy asks",
        )
    },
}
"""Why a cell has no test, by row and door."""
