"""Reduce a tool's JSON Schema to what an API supports."""
