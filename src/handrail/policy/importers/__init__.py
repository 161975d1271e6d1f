"""Importers: rules that were written for another agent, as rules of ours.

``claude`` reads the permissions of a Claude Code ``settings.json``, ``codex`` a Codex ``.rules``
file, ``gemini`` a policy file of the Gemini CLI. Each has ``translate``, which gives the rules and
one note on each rule that it met. Nothing becomes looser on the way.
"""

from handrail.policy.importers import claude, codex, gemini
from handrail.policy.importers._report import Fate, Imported, Note

__all__ = ["Fate", "Imported", "Note", "claude", "codex", "gemini"]
