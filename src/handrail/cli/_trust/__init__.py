"""Workspace files needing trust, and how they are shown."""
