"""The client: servers as sources of tools."""
