"""Trust: workspace files reviewed by the user, by their exact content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from handrail._support import is_object
from handrail._support.private_files import hold_lock, read_private_file, replace_file
from handrail.policy._rules.errors import InvalidRule, ProblemKind, RuleProblem


def digest(content: bytes) -> str:
    """Return a file content's SHA-256, to which trust is tied."""
    return hashlib.sha256(content).hexdigest()


class Trust:
    """Files trusted by the user, stored in a file only the user can write."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def has(self, rules: Path, content_digest: str) -> bool:
        """Return whether the user trusts this file with this content."""
        trusted, _ = self._load()
        return trusted.get(_key(rules)) == content_digest

    def grant(self, rules: Path, content_digest: str) -> None:
        """Trust a file with this content. Call it only if the user said so."""
        with hold_lock(self._file):
            self._write({**self._read(), _key(rules): content_digest})

    def revoke(self, rules: Path) -> None:
        """Trust a file no longer."""
        with hold_lock(self._file):
            self._write(
                {name: granted for name, granted in self._read().items() if name != _key(rules)}
            )

    @property
    def problem(self) -> RuleProblem | None:
        """Why nothing is trusted and trust cannot be stored; None if the file is usable."""
        _, problem = self._load()
        return problem

    def _read(self) -> dict[str, Any]:
        """Return digests by path.

        Raises InvalidRule for an unusable file, which stays unchanged.
        """
        trusted, problem = self._load()
        if problem is not None:
            raise InvalidRule(f"{problem.reason}; {problem.hint}", file=problem.file)
        return trusted

    def _load(self) -> tuple[dict[str, Any], RuleProblem | None]:
        """Return digests by path, or no digests and the problem with the file."""
        try:
            content, others_can_write = read_private_file(self._file)
            trusted: Any = json.loads(content)
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            hint = "use a readable regular file of at most 1 MiB, in a regular folder"
            return {}, self._problem("unreadable", f"cannot be read: {error.strerror}", hint)
        except (ValueError, RecursionError):
            trusted, others_can_write = None, False
        if not is_object(trusted):
            hint = "delete it, and trust your workspaces again"
            return {}, self._problem("invalid", "damaged: the content is not a JSON object", hint)
        if others_can_write:
            hint = f"review it, then run `chmod go-w {self._file} {self._file.parent}`"
            reason = "other users can write to the file or its folder"
            return {}, self._problem("exposed", reason, hint)
        return trusted, None

    def _problem(self, kind: ProblemKind, reason: str, hint: str) -> RuleProblem:
        return RuleProblem(kind, reason, str(self._file), outcome="ignoring", hint=hint)

    def _write(self, trusted: dict[str, Any]) -> None:
        replace_file(self._file, json.dumps(trusted, indent=1, sort_keys=True).encode())


def _key(rules: Path) -> str:
    """Return a file's real path: a folder reached through a link shares its trust."""
    return str(rules.parent.resolve() / rules.name)
