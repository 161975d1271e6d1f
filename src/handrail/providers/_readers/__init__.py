"""Readers of stored conversations, one module for each API."""
