"""A rule: what it matches, and how a file spells it."""
