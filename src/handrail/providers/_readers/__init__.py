"""Readers for stored conversations, one module for each API."""
