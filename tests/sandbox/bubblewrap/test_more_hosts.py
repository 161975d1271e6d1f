"""Hosts that are open to one command of a sandbox, and to no other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import HandrailError
from handrail.net import Guard, Proxy
from handrail.sandbox import Sandbox, SandboxUnavailable
from net.web_stage import PUBLIC, Site, reply
from sandbox.commands import run

pytestmark = pytest.mark.anyio

FETCH = "curl -sS {} http://pub.test/"
CLOSED = "handrail: 'pub.test' is not an allowed host.\n"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    site = Site({"*": reply(b"hello\n")})
    with Proxy(
        ["other.test"],
        directory=tmp_path / "p",
        guard=Guard(resolver=lambda *_: [PUBLIC]),
        connect=lambda *_: socket.create_connection(("127.0.0.1", site.port)),
    ) as made:
        yield made
    site.close()


async def test_the_hosts_of_a_running_command_are_closed_to_others(
    proxy: Proxy, tmp_path: Path
) -> None:
    (tmp_path / "ws").mkdir()
    opened: list[str] = []
    sandbox = Sandbox(tmp_path / "ws", network=proxy, opened=lambda: opened)
    through_first = FETCH.format("-x http://127.0.0.1:3128")

    async def fetch_beside(**options: list[str]) -> tuple[str, str]:
        """What a command with hosts prints, and what another one gets through its bridge."""
        first = sandbox.start(f"{FETCH.format('')}; echo $http_proxy; sleep 600", **options)
        try:
            text = b""
            while text.count(b"\n") < 2:
                text += await first.read()
            opened.clear()
            return text.decode(), (await run(sandbox, through_first)).text
        finally:
            await first.kill()

    assert await fetch_beside(hosts=["pub.test"]) == ("hello\nhttp://127.0.0.1:3128\n", CLOSED)
    opened.append("pub.test")  # the control: a host of all commands, on the shared loopback
    assert await fetch_beside(hosts=["pub.test"]) == (
        "hello\nhttp://127.0.0.1:3128\n",
        "hello\n",
    )
    assert (await run(sandbox, FETCH.format(""))).text == CLOSED


async def test_no_other_command_leads_a_command_to_another_socket(
    proxy: Proxy, tmp_path: Path
) -> None:
    """Commands share /tmp: what is there is no way to a proxy."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    sandbox = Sandbox(workspace, network=[], opened=list)
    swap = """
for folder in /tmp /dev; do
    mv $folder/.handrail-proxy $folder/moved; mkdir -p $folder/.handrail-proxy
    for n in 1 2 3; do ln -s $PWD/other.sock $folder/.handrail-proxy/$n-proxy.sock; done
done
"""
    ask = "exec 5<>/dev/tcp/127.0.0.1/3128; printf 'GET http://pub.test/ HTTP/1.1\r\n\r\n' >&5; head -n 1 <&5"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(workspace / "other.sock"))
        other.listen()
        other.settimeout(0)
        first = sandbox.start(
            f"echo begun; until [ -e go ]; do sleep 0.05; done; {ask}", hosts=["pub.test"]
        )
        text = await first.read()
        await run(sandbox, swap)
        (workspace / "go").touch()
        while more := await first.read():
            text += more
        await first.kill()
        with pytest.raises(BlockingIOError):
            other.accept()

    assert text.startswith(b"begun\nHTTP/1.1 ")


async def test_a_process_says_which_hosts_were_closed_to_it(proxy: Proxy, tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    sandbox = Sandbox(tmp_path / "ws", network=proxy, opened=list)
    line = "for h in other pub third pub; do curl -sS http://$h.test/; done"
    process = sandbox.start(line, hosts=["pub.test"])
    while await process.read():
        pass
    await process.kill()

    assert process.refused_hosts() == ("third.test",)
    assert sandbox.find_closed(["OTHER.test", "pub.test", "pub.test"]) == ["pub.test"]


async def test_a_rule_that_names_no_public_host_opens_nothing(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, opened=lambda: ["localhost", "a b", "10.0.0.1"])

    assert (await run(sandbox, "echo ${http_proxy:-offline}")).text == "offline\n"
    assert (await run(sandbox, "echo $http_proxy", hosts=["pub.test"])).text == (
        "http://127.0.0.1:3128\n"
    )


async def test_a_host_that_is_not_valid_starts_nothing(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, opened=list)

    with pytest.raises(ValueError, match="'a b' is not valid"):
        sandbox.start("true", hosts=["a b"])
    assert (await run(sandbox, "echo fine")).text == "fine\n"
    assert sandbox.report().not_enforced[0] == (
        "hosts that a rule or an approval opens can be reached"
    )


async def test_landlock_opens_no_host(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="landlock", opened=lambda: ["pub.test"])

    assert (sandbox.opens_hosts, sandbox.find_closed(["pub.test"])) == (False, ["pub.test"])
    with pytest.raises(SandboxUnavailable, match="requires bubblewrap"):
        sandbox.start("true", hosts=["pub.test"])


def test_a_closed_proxy_opens_nothing_more(proxy: Proxy, tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    sandbox = Sandbox(tmp_path / "ws", network=proxy)
    further = proxy.with_hosts(["pub.test"])

    proxy.close()

    assert not Path(further.path).exists()
    with pytest.raises(HandrailError, match="proxy is closed"):
        sandbox.start("true")
