"""An MCP server that wants a token, with the authorization server that gives it; both hostile, if a test says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

JSON = "application/json"


class Service(ThreadingHTTPServer):
    """What the server does, and what it saw."""

    def __init__(self, **metadata: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.metadata = metadata
        """Changes of the authorization server's metadata; None removes a field."""
        self.calls_only = False
        """Whether only calls need a token."""
        self.valid = "t-1"
        self.expires_in: int | None = 3600
        self.grants: list[str] = []
        self.seen: list[tuple[str, str]] = []
        """The path and the token of each request."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def describe(self) -> dict[str, Any]:
        about = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            **self.metadata,
        }
        return {name: value for name, value in about.items() if value is not None}


class Handler(BaseHTTPRequestHandler):
    server: Service  # type: ignore[assignment]

    def do_GET(self) -> None:
        self.note()
        parts = urlsplit(self.path)
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            self.answer(
                200, {"resource": self.server.url, "authorization_servers": [self.server.origin]}
            )
        elif parts.path.startswith("/.well-known/"):
            self.answer(200, self.server.describe())
        elif parts.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            back = urlencode({"code": "c-1", "state": asked["state"]})
            self.answer(302, {}, Location=f"{asked['redirect_uri']}?{back}")
        else:
            self.answer(405, {})

    def do_POST(self) -> None:
        token = self.note()
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/register":
            self.answer(201, {**json.loads(body), "client_id": "client-1"})
        elif self.path == "/token":
            self.grants.append(body.decode())
            tokens = {"access_token": self.server.valid, "token_type": "Bearer"}
            self.answer(
                200, {**tokens, "expires_in": self.server.expires_in, "refresh_token": "r-1"}
            )
        else:
            self.serve(json.loads(body), token)

    @property
    def grants(self) -> list[str]:
        return self.server.grants

    def do_DELETE(self) -> None:
        self.answer(405, {})

    def serve(self, request: dict[str, Any], token: str) -> None:
        method = request["method"]
        needed = not self.server.calls_only or method == "tools/call"
        if needed and token != f"Bearer {self.server.valid}":
            where = f"{self.server.origin}/.well-known/oauth-protected-resource"
            self.answer(401, {}, **{"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})
            return
        info = {"name": "login", "version": "1"}
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": info,
            },
            "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "acted"}]},
        }
        if "id" not in request:
            self.answer(202, {})
            return
        error = {"error": {"code": -32601, "message": "what?"}}
        found = {"result": results[method]} if method in results else error
        self.answer(200, {"jsonrpc": "2.0", "id": request["id"], **found})

    def note(self) -> str:
        token = self.headers.get("authorization", "")
        self.server.seen.append((self.path, token))
        return token

    def answer(self, status: int, body: object, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", JSON)
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(**metadata: Any) -> Generator[Service]:
    """A running service."""
    with Service(**metadata) as service:
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()
