"""Tell whether git ignores a path, or a program made it as its cache."""

from __future__ import annotations

from functools import partial

from handrail.tools._files.folder_listing import read_rules
from handrail.tools._files.ignore_rules import IgnoreRules
from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.survey import CACHES


def is_ignored(workspace: Workspace, path: str) -> bool:
    """Return whether ``.gitignore`` files leave a path out, or it is in a program's cache."""
    rules = IgnoreRules(path.rpartition("/")[0], partial(read_rules, workspace))
    is_cache = not CACHES.isdisjoint(path.split("/"))
    return is_cache or rules.ignores_all or rules.ignore(path, is_folder=False)
