"""Import rules: translate those of Claude Code into handrail rules.

``claude`` reads permissions from a Claude Code ``settings.json``. Its ``translate`` returns the
rules and one note for each rule read. No rule becomes more permissive.
"""

from handrail.policy.importers import claude
from handrail.policy.importers._report import Fate, Imported, Note

__all__ = ["Fate", "Imported", "Note", "claude"]
