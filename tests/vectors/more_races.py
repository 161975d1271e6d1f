"""Races, forged tokens and hostile pages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from console.test_hostile import make_file, pages
from console.test_races import at_once, send
from console.visits import ASKED, BEHIND_A_PROXY, make_pending, park, read_page, visit
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.net._oidc import OidcClient, OidcError
from handrail.runs import open_runs
from vectors.stage import Check

RACERS, REQUESTS = 12, 25
RACE = f"""
import os, sys
import anyio
from handrail.approvals import FileLedger
from handrail.permissions import MemoryLedger
from handrail.runs import open_runs

folder, *kinds = sys.argv[1:]
with open_runs(folder + "/journal.db") as runs:
    runs.create()
FileLedger(folder + "/used")
start, begin = os.pipe()


async def race(name):
    ledgers = {{
        "file": lambda: FileLedger(folder + "/used"),
        "sqlite": lambda: open_runs(folder + "/journal.db").ledger,
        "memory": MemoryLedger,
    }}
    for kind in kinds:
        ledger = ledgers[kind]()
        won = [one for one in range({REQUESTS}) if await ledger.claim(str(one), name)]
        os.write(1, "".join(f"{{kind}} {{one}}\\n" for one in won).encode())


children = []
for number in range({RACERS}):
    child = os.fork()
    if not child:
        os.close(begin)
        os.read(start, 1)
        anyio.run(race, str(number))
        os._exit(0)
    children.append(child)
os.close(begin)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def _race_for_ledgers(_given: Any, root: Path, *, judged: bool) -> bool:
    """Each approval is won once. In the control, each process has a ledger of its own."""
    kinds = ["file", "sqlite"] if judged else ["memory"]
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", RACE, str(root), *kinds],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    wanted = Counter(f"{kind} {one}" for kind in kinds for one in range(REQUESTS))
    return Counter(done.stdout.splitlines()) == wanted


def _race_for_answers(_given: Any, root: Path, *, judged: bool) -> bool:
    """Of 40 answers to two consoles, one is used. Those of the control share no database."""
    files = [root / "journal.db", root / ("journal.db" if judged else "other.db")]
    pending = make_pending("r1")
    for file in dict.fromkeys(files):
        park(open_runs(file), pending)
    path = f"/inbox/{to_path(pending.id)}"
    sends = list[Any]()
    for file, name in zip(files, ("ana", "ben"), strict=True):
        console = Console(BEHIND_A_PROXY, Store(str(file)), clock=lambda: ASKED + 1)
        person = visit(file, name=name, console=console)
        form = person.form(path)
        sends += [send(person, path, form, ("approve", "deny")[at % 2]) for at in range(20)]
    statuses = Counter(one.status_code for one in at_once(*sends))
    assert statuses.total() == 40
    return statuses == Counter({409: 39, 303: 1})


NOW = 1_800_000_000
GOOD = {
    "iss": "https://sso.test",
    "aud": "us",
    "sub": "ana",
    "nonce": "n",
    "iat": NOW,
    "exp": NOW + 60,
}
WRONG: tuple[dict[str, Any], ...] = (
    {"aud": ["us", "another"]},
    {"azp": "another"},
    {"nonce": None},
    {"aud": "another"},
    {"iss": "https://another.test"},
    {"exp": NOW - 60},
)


def _forge(key: ec.EllipticCurvePrivateKey) -> list[str]:
    """Tokens that must not count: with wrong claims, or not signed by the provider."""
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256"}, GOOD)
    )
    mac = hmac.digest(public, f"{head}.{body}".encode(), hashlib.sha256)
    forged = [jwt.encode(GOOD, None, algorithm="none")]
    forged.append(f"{head}.{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}")
    forged.append(jwt.encode(GOOD, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"))
    for wrong in WRONG:
        claims = {name: one for name, one in {**GOOD, **wrong}.items() if one is not None}
        forged.append(jwt.encode(claims, key, algorithm="ES256"))
    return forged


def _forge_tokens(_given: Any, _root: Path, *, judged: bool) -> bool:
    """None of them counts, but a good one does. The control does not look at the signature."""
    key = ec.generate_private_key(ec.SECP256R1())
    keys = {"keys": [jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)]}
    client = OidcClient(
        issuer=GOOD["iss"], client_id="us", client_secret="", scopes=(), clock=lambda: NOW
    )

    def counts(token: str) -> bool:
        if not judged:
            return bool(jwt.decode(token, options={"verify_signature": False}))
        try:
            client._check_token({"id_token": token}, keys, "n")  # noqa: SLF001
        except OidcError:
            return False
        return True

    assert counts(jwt.encode(GOOD, key, algorithm="ES256"))
    return not any(map(counts, _forge(key)))


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)>"


def _show_markup(_given: Any, root: Path, *, judged: bool) -> bool:
    """Pages show it as text. The control writes it as it is."""
    shown = pages(make_file(root, MARKUP), MARKUP)
    written = [page if judged else html.unescape(page) for page in shown.values()]
    assert any("onerror" in page for page in written)
    elements = [one for page in written for one in read_page(page).elements]
    return not any(_runs(name, attributes) for name, attributes in elements)


def _runs(name: str, attributes: tuple[str, ...]) -> bool:
    """Whether an element has code of the page."""
    is_inline = name == "script" and "src" not in attributes
    return is_inline or any(one.startswith("on") for one in attributes)


CHECKS: dict[str, Check] = {
    "t5-race-001": _race_for_ledgers,
    "t5-race-002": _race_for_answers,
    "t5-xss-001": _show_markup,
    "t5-oidc-001": _forge_tokens,
}
