"""Importers: translate the rules of other agents into handrail rules.

``claude`` reads the permissions of a Claude Code ``settings.json``, ``codex`` a Codex ``.rules``
file, ``gemini`` a policy file of the Gemini CLI. Each has ``translate``, which returns the rules
and one note for each rule that it read. No rule becomes more permissive.
"""

from handrail.policy.importers import claude, codex, gemini
from handrail.policy.importers._report import Fate, Imported, Note

__all__ = ["Fate", "Imported", "Note", "claude", "codex", "gemini"]
