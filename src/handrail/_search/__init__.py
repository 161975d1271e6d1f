"""Tool search: a definition index, and its search words."""
