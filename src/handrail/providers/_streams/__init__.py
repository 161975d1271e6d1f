"""Decoders of streams and responses, one module for each API."""
