"""Model servers on this machine, found by the model list each offers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import PurePosixPath
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from handrail._support import is_list, is_object

USUAL_PORTS = (8080, 11434, 8000, 1234)
"""The usual ports for llama.cpp, Ollama, vLLM and LM Studio."""
MAX_SECONDS = 2.0
"""Seconds to wait for all servers together."""
MAX_MODELS = 50
_MAX_BYTES = 1 << 20


class LocalServer(NamedTuple):
    """A server with an OpenAI-compatible API."""

    url: str
    """Its address, as `base_url`."""
    models: tuple[str, ...]
    """Empty if it is still loading."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its models, as `--model` takes them."""
        return tuple(f"openai-chat:{model}" for model in self.models)


def find_servers(ports: Iterable[int]) -> list[LocalServer]:
    """Return the servers answering on these ports, in this order. They are asked in parallel."""
    urls = [f"http://127.0.0.1:{port}/v1" for port in dict.fromkeys(ports)]
    found: dict[str, tuple[str, ...]] = {}

    def ask(url: str) -> None:
        if (models := _list_models(url)) is not None:
            found[url] = models

    threads = [Thread(target=ask, args=(url,), daemon=True) for url in urls]
    deadline = time.monotonic() + MAX_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return [LocalServer(url, found[url]) for url in urls if url in found]


def models_at(url: str) -> tuple[str, ...]:
    """Return the model names at an address, or none if it does not list any."""
    return _list_models(url) or ()


def window_at(url: str, name: str) -> int | None:
    """Return the context size reported by a model server, if any.

    llama.cpp and vLLM do. A server with a single model accepts any name for it.
    """
    _, document = _get_models(url)
    rows = _rows(document)
    named = [row for row in rows if row.get("id") == name] or rows[: len(rows) == 1]
    for row in named:
        meta = row.get("meta")
        said = row.get("max_model_len"), meta.get("n_ctx") if is_object(meta) else None
        return next((size for size in said if isinstance(size, int) and size > 0), None)
    return None


def _list_models(url: str) -> tuple[str, ...] | None:
    """Return the models at an address; None if there is no model server."""
    status, document = _get_models(url)
    if status == HTTPStatus.SERVICE_UNAVAILABLE and is_object(document) and "error" in document:
        return ()  # llama.cpp while it loads a model
    return _model_names(document) or None if status == HTTPStatus.OK else None


def _get_models(url: str) -> tuple[int, Any]:
    """Return a model list's status and document, or 0 if there is no such server.

    No key is sent, and no redirection is followed.
    """
    try:
        parts = urlsplit(url)
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=MAX_SECONDS)
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/models")
            response = connection.getresponse()
            return response.status, json.loads(response.read(_MAX_BYTES))
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError, RecursionError):
        return 0, None


def _rows(document: Any) -> list[Mapping[str, Any]]:
    rows = document.get("data") if is_object(document) else None
    return [row for row in rows if is_object(row)] if is_list(rows) else []


def _model_names(document: Any) -> tuple[str, ...]:
    ids = [row.get("id") for row in _rows(document)]
    names = [_name(text) for text in ids if isinstance(text, str) and text]
    return tuple(names[:MAX_MODELS])


def _name(text: str) -> str:
    """Return a model's name. llama.cpp lists a file's path, and accepts any name."""
    is_path = text.startswith("/") and text.endswith(".gguf")
    return PurePosixPath(text).stem if is_path else text
