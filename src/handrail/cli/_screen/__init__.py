"""Draws Markdown, calls and status in a terminal, as text rows with roles."""
