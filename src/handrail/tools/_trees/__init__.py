"""The tree of a workspace: what is in it before and after a command, and how to restore it."""
