"""Texts at rest: sealed before they are stored, and opened when they are read."""
