"""The client: servers as tool sources."""
