"""The chat at a terminal."""
