"""Long stored texts: as bytes, compressed if shorter."""

from __future__ import annotations

import zlib

_DEFLATED = b"\x01"
"""A compressed text's first byte. No other stored text begins with it."""
_MIN_BYTES = 64
"""Shorter texts are stored unchanged."""
_WINDOW = -zlib.MAX_WBITS
"""Without a header and a checksum: digest chains find changes."""
_WORDS = (  # the databases compress no short rows: decision 101
    rb'{"handrail": 2, "messages": [{"prompt": [{"text": ""}]}], "waiting": [], "inbox": [], '
    rb'"usage": [0, 0, 0, 0, 0], "turns": 0, "calls": 0, "run_id": "", "before": {"turns": 0, '
    rb'"calls": 0, "usage": [0, 0, 0, 0, 0], "cost": "0"}, "discarded": [], "inner": [], '
    rb'"shortened": [0, "", 0], "cost": "0", "answers": []}","kept":0,"state":{'
    rb'[[], [{"number": 1, "speaker": "model", "reply": 1, "at": 17, "text": "", "model": "", '
    rb'"seconds": 1.0, "input": 0, "output": 0, "cached": 0, "calls": 0, "failed": 0, "denied": 0, '
    rb'"waiting": 0, "ended": 17}], '
    rb'{"reply": [{"call": "", "args": {"path": "", "id": "}], "stop": "end", '
    rb'"usage": [0, 0, 0, 0, 0], "model": "", "seconds": {"results": [{"v": 1, "call_id": "", '
    rb'"text": "", "parts": [], "data": null, "failure": null, "pending": null, "metadata": {}, '
    rb'"found": [], "seconds": 1.}], "stop_reason": null, "inner": [], "usage": [0, 0, 0, 0, 0], '
    rb'"cost": "0", "approved": []}'
    rb'{"at":17,"status":"done","reason":"answer","command":"worker","began":"20","prompt":"",'
    rb'"agent":"","principal":null,"turns":1,"application":"handrail","version":"1","why":"",'
    rb'"ended":"20","calls":1,"sealed":0}'
    rb'["",["prompt","{\"at\":17,\"text\":\"["status","{\"at\":17,\"status\":\"queued\",'
    rb"\"reason\":\"\",\"command\":\"worker\",\"began\":\"20+00:00\",\"prompt\":\"\","
    rb"\"agent\":\"\",\"principal\":null,\"turns\":0,\"application\":\"handrail\",\"version\":\""
    rb'["status","{\"at\":17,\"status\":\"running\",\"reason\":\"\",\"why\":\"\",\"ended\":null}",'
    rb'"["status","{\"at\":17,\"status\":\"done\",\"reason\":\"answer\",\"sealed\":0,\"why\":\"\",'
    rb"\"ended\":\"20+00:00\",\"turns\":\"calls\":"
    rb'["answered","{\"at\":17,\"pending\":\"\",\"call_id\":\"\",\"answer\":\"allow\",'
    rb"\"by\":\"\",\"via\":\"\",\"seen\":\""
    rb'["asked","{\"at\":17,\"call_id\":\"\",\"pending\":\"\",\"question\":\"\",\"origin\":'
    rb"{\"rule\":\"\",\"file\":\"\",\"line\":1,\"kind\":\"\",\"digest\":\"\"},\"grade\":\"\","
    rb'\"headline\":\"\",\"turn\":1}","'
    rb'["reply","{\"at\":17,\"turn\":1,\"seconds\":0.\"model\":\"\",\"stop\":\"end\",\"usage\":'
    rb"{\"input_tokens\":0,\"output_tokens\":0,\"cached_tokens\":0},\"calls\":[\"\"],"
    rb'\"text\":\"\"}","["status","{\"at\":17,\"turns\":1,\"calls\":3}","'
    rb'["waiting","{\"at\":17,\"call_id\":\"\",\"on\":[],\"reason\":\"\",\"what\":\"\",'
    rb'\"turn\":1}","["requested","{\"at\":17,\"call_id\":\"\",\"tool\":\"\",\"args\":{\"\":\"\"},'
    rb'\"turn\":1}","["decided","{\"at\":17,\"call_id\":\"\",\"accesses\":[[\"read\",\"*\"]],'
    rb'\"decision\":\"allow\",\"origin\":null,\"turn\":1}","["started","{\"at\":17,'
    rb'\"call_id\":\"\",\"attempt\":1,\"turn\":1}","["finished","{\"at\":17,\"call_id\":\"\",'
    rb'\"kind\":\"\",\"pending\":\"\",\"chars\":5,\"text\":\"\",\"turn\":1}","'
)
"""Frequent content of these texts. Stored texts need it: it never changes.

A later dictionary needs another first byte.
"""


def compress(text: str) -> bytes:
    """Return a text in its stored form."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < _MIN_BYTES and not data.startswith(_DEFLATED):
        return data
    packer = zlib.compressobj(wbits=_WINDOW, zdict=_WORDS)
    packed = _DEFLATED + packer.compress(data) + packer.flush()
    return packed if len(packed) < len(data) or data.startswith(_DEFLATED) else data


def decompress(stored: bytes) -> str:
    """Return the original text. Foreign bytes read as another text."""
    try:
        data = _inflate(stored[1:]) if stored.startswith(_DEFLATED) else stored
        return data.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        return repr(stored)


def _inflate(packed: bytes) -> bytes:
    reader = zlib.decompressobj(_WINDOW, _WORDS)
    return reader.decompress(packed) + reader.flush()
