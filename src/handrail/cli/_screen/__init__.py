"""Draws Markdown, calls and status in a terminal, as rows of text in roles."""
