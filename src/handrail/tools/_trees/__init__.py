"""A workspace's tree: what is in it before and after a command, and how to restore it."""
