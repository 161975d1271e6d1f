"""Workspace files: paths, reading, replacing, undoing."""
