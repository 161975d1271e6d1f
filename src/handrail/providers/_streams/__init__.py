"""Stream and response decoders, one module for each API."""
