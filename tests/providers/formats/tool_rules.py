"""What providers are documented to refuse about the tools of a request and the search for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Rule = Callable[[Body], bool]
"""Whether a request is refused."""


def tools_of(request: Body) -> list[Body]:
    """The tools, with the functions of Gemini one by one."""
    tools: list[Body] = request.get("tools", [])
    return [one for tool in tools for one in tool.get("functionDeclarations", [tool])]


def name_of(tool: Body) -> str:
    name: str = tool.get("function", tool).get("name") or tool["type"]
    return name


def names_a_tool_twice(request: Body) -> bool:
    return any(count > 1 for count in Counter(map(name_of, tools_of(request))).values())


def blocks(request: Body) -> list[Body]:
    return [block for message in request["messages"] for block in message["content"]]


def contents(request: Body) -> list[list[Body]]:
    """The contents of results that are lists."""
    results = [block["content"] for block in blocks(request) if block["type"] == "tool_result"]
    return [content for content in results if isinstance(content, list)]


def references(request: Body) -> set[str]:
    return {
        block["tool_name"]
        for content in contents(request)
        for block in content
        if block["type"] == "tool_reference"
    }


def deferred(request: Body) -> set[str]:
    return {name_of(tool) for tool in tools_of(request) if tool.get("defer_loading")}


def defers_every_tool(request: Body) -> bool:
    return bool(tools_of(request)) and len(deferred(request)) == len(tools_of(request))


def refers_to_an_unknown_tool(request: Body) -> bool:
    return not references(request) <= deferred(request)


def mixes_references_with_text(request: Body) -> bool:
    kinds = [{block["type"] for block in content} for content in contents(request)]
    return any("tool_reference" in one and len(one) > 1 for one in kinds)


def has_an_empty_result(request: Body) -> bool:
    return [] in contents(request)


def caches_a_deferred_tool(request: Body) -> bool:
    return any(tool.get("defer_loading") and "cache_control" in tool for tool in tools_of(request))


def leaves_a_tool_unfindable(request: Body) -> bool:
    """A deferred tool needs a reference, or a search by the provider."""
    hosted = any("tool_search_tool" in tool.get("type", "") for tool in tools_of(request))
    return not hosted and not deferred(request) <= references(request)


def items(request: Body, kind: str) -> list[Body]:
    return [item for item in request["input"] if item["type"] == kind]


def searches_of(request: Body) -> list[Body]:
    return [tool for tool in tools_of(request) if tool["type"] == "tool_search"]


def defers_without_a_search(request: Body) -> bool:
    loaded = [tool for item in items(request, "tool_search_output") for tool in item["tools"]]
    return bool(deferred(request) or loaded) and not searches_of(request)


def searches_for_nothing(request: Body) -> bool:
    """The provider's search needs deferred tools. A client has its own."""
    own = [tool for tool in searches_of(request) if tool.get("execution") != "client"]
    return bool(own) and not deferred(request)


def lacks_a_description(request: Body) -> bool:
    return any(
        not tool.get("description")
        for tool in searches_of(request)
        if tool.get("execution") == "client"
    )


def leaves_a_search_open(request: Body) -> bool:
    calls = [item["call_id"] for item in items(request, "tool_search_call")]
    return calls != [item["call_id"] for item in items(request, "tool_search_output")]


def loads_a_tool_twice(request: Body) -> bool:
    outputs = items(request, "tool_search_output")
    names = [name_of(tool) for item in outputs for tool in item["tools"]]
    return len(set(names)) < len(names) or bool({*names} & {*map(name_of, tools_of(request))})


def lacks_a_namespace(request: Body) -> bool:
    """A tool that was found is in a namespace of its own name."""
    loaded: set[str] = set()
    for item in request["input"]:
        if item["type"] == "tool_search_output":
            loaded |= {name_of(tool) for tool in item["tools"]}
        elif item["type"] == "function_call":
            own = item["name"] if item["name"] in loaded else None
            if item.get("namespace") != own:
                return True
    return False


TOOL_RULES: dict[str, dict[str, Rule]] = {
    "anthropic": {
        "tools: Tool names must be unique": names_a_tool_twice,
        "At least one tool must have defer_loading=false": defers_every_tool,
        "Tool reference not found in available tools": refers_to_an_unknown_tool,
        "tool_reference blocks cannot be mixed with other content": mixes_references_with_text,
        "tool_result: content must not be empty": has_an_empty_result,
        "Tools with defer_loading cannot use prompt caching": caches_a_deferred_tool,
        "Deferred tools that nothing finds": leaves_a_tool_unfindable,
    },
    "gemini": {"Duplicate function declaration": names_a_tool_twice},
    "openai_chat": {"Tool names must be unique": names_a_tool_twice},
    "openai_responses": {
        "Tool names must be unique": names_a_tool_twice,
        "Deferred tools require tools.tool_search": defers_without_a_search,
        "tools.tool_search requires a deferred tool": searches_for_nothing,
        "tool_search with client execution requires a description": lacks_a_description,
        "No tool output found for tool search call": leaves_a_search_open,
        "A tool is loaded twice": loads_a_tool_twice,
        "Missing namespace for function_call": lacks_a_namespace,
    },
}


def refuse_tools(api: str, request: Body) -> str:
    """The first reason to refuse the tools of a request, or nothing."""
    return next((why for why, broken in TOOL_RULES[api].items() if broken(request)), "")
