"""The files of the console in deploy/: they can be read, and only the proxy reaches the console."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from handrail.console import Console, HeaderIdentity, read_config
from handrail.console._store import Store

FOLDER = Path(__file__).parents[2] / "deploy" / "console"
SOCKET = "/run/handrail/console.sock"


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_settings_are_those_of_a_console_behind_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSOLE_KEY", "k" * 32)
    config = read_config(FOLDER / "console.toml")

    assert isinstance(config.identity, HeaderIdentity)
    assert Console(config, Store(str(tmp_path / "runs.db"))).needs_socket
    assert (config.https, config.hosts) == (True, ("console.example.com",))
    proxy = read("nginx.conf")
    own = proxy[proxy.index("    location / {") :]
    for header in (config.identity.header, config.identity.groups_header):
        assert f"proxy_set_header {header} $" in own  # never what a browser sent
    assert own.index("auth_request /oauth2/auth") < own.index("proxy_pass http://console;")
    assert f"server_name {config.hosts[0]};" in proxy
    assert f"server unix:{SOCKET};" in proxy
    assert re.findall(r"listen (.*);", proxy) == ["443 ssl"]
    assert proxy.count("{") == proxy.count("}")


def test_only_the_proxy_shares_the_socket_with_the_console() -> None:
    text = (FOLDER.parent / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    own = {name: one for name, one in services.items() if one.get("profiles") == ["console"]}

    assert {name: one.get("ports") for name, one in own.items()} == {
        "console": None,
        "sign-in": None,
        "proxy": ["443:443"],
    }
    sharing = [
        name for name, one in services.items() if "socket:/run/handrail" in one.get("volumes", ())
    ]
    assert sharing == ["console", "proxy"]
    assert f"--socket {SOCKET} " in (FOLDER.parent / "start").read_text(encoding="utf-8")
    mounted = [one for service in own.values() for one in service.get("volumes", ())]
    local = {one.split(":")[0] for one in mounted if one.startswith("./")} - {"./console/tls"}
    assert [one for one in local if not (FOLDER.parent / one).exists()] == []


def test_the_unit_starts_the_console_on_the_same_socket() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(read("handrail-console.service"))
    service = unit["Service"]

    assert f"--socket {SOCKET} " in service["ExecStart"]
    assert SOCKET.startswith(f"/run/{service['RuntimeDirectory']}/")
    assert service["NoNewPrivileges"] == "yes"
