"""Frame: mark where a tool's text begins and ends, and label it as data."""

from __future__ import annotations

from handrail import Call, CheckedCall, Hook, Result
from handrail.hooks._shared import as_sent
from handrail.sources import frame_result


def frame() -> Hook:
    """Wrap each result's text in a frame naming the tool and labeling the text as data.

    Tools of MCP servers, ``openapi_tools`` and ``web_fetch`` have frames without it. A text cannot
    close its own frame: the closing line has a marker missing from the text. The same call and text
    get the same marker, to keep prompt caches valid. Images, files, ``data``, refusals, handrail's
    own messages, framed texts and results for programs stay unchanged. List it before other hooks:
    results pass hooks in reverse order, and this one should see them last.
    """

    def after(call: CheckedCall | Call, result: Result) -> Result:
        is_for_code = isinstance(call, CheckedCall) and call.turn.options.whole
        return result if is_for_code else frame_result(result, as_sent(call).name)

    return Hook(after=after)
