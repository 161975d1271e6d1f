"""Which server gets a key, and which address is used at all."""

from __future__ import annotations

import pytest

from cli_harness import Handrail

MODEL = 'model = "openai-chat:x"\n'
HERE = 'base_url = "http://127.0.0.1:9/v1"\n'
KEY = {"HANDRAIL_API_KEY": "HR-KEY"}
WITHHELD = "the key in HANDRAIL_API_KEY is not sent to the address in {}"
NAME = "name it with `key_variable` there"


def trusted(handrail: Handrail, text: str, file: str = "handrail.toml") -> None:
    handrail.write(file, text)
    assert handrail("trust", "--yes", file).exit == 0


@pytest.mark.parametrize("file", ["handrail.toml", ".handrail/local.toml"])
def test_a_key_that_is_not_sent_is_said(handrail: Handrail, file: str) -> None:
    trusted(handrail, f"{MODEL}{HERE}", file)

    ran = handrail("run", "hi", env=KEY)
    check = handrail("doctor", "--json", env=KEY).json["checks"]["model-key"]

    said = WITHHELD.format(file.rpartition("/")[2])
    assert ran.err.splitlines()[0] == f"{said}; {NAME}"
    assert (check["status"], check["found"], check["remedy"]) == ("warn", said, NAME)


@pytest.mark.parametrize(
    ("more", "words", "env"),
    [
        ('key_variable = "MINE"\n', (), {**KEY, "MINE": "x"}),
        ("", ("--base-url", "http://127.0.0.1:9/v1"), KEY),
        ("", (), {**KEY, "HANDRAIL_BASE_URL": "http://127.0.0.1:9/v1"}),
        ("", (), {}),
    ],
)
def test_nothing_is_said_of_a_key_that_is_sent(
    handrail: Handrail, more: str, words: tuple[str, ...], env: dict[str, str]
) -> None:
    trusted(handrail, f"{MODEL}{HERE}{more}")

    assert "is not sent" not in handrail("run", "hi", *words, env=env).err


@pytest.mark.parametrize("url", ["http://example.org/v1", "HTTP://10.0.0.7:8080/v1"])
def test_an_address_of_another_machine_needs_encryption(handrail: Handrail, url: str) -> None:
    ran = handrail("run", "hi", "-m", "openai-chat:x", "--base-url", url)

    assert (ran.exit, ran.err) == (
        2,
        (
            f"handrail: base_url has no encryption: {url}\n"
            "  use https, or a server on this machine, in --base-url\n"
        ),
    )


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ('base_url = "https://models.example.org/v1"', "models.example.org"),
        ('base_url = "https://me:pw@models.example.org:8443/v1"', "models.example.org:8443"),
        ('base_url = "odd"', "odd"),
        ("base_url = 5", ""),
        ("base_url = ", ""),
        ("", ""),
    ],
)
def test_trust_says_where_requests_go(handrail: Handrail, text: str, host: str) -> None:
    handrail.write("handrail.toml", f"{text}\n")

    said = handrail("trust", "--yes", "handrail.toml").err.splitlines()

    wanted = [f"requests, with the contents of your files, go to {host}"] if host else []
    assert [line for line in said if line.startswith("requests")] == wanted
