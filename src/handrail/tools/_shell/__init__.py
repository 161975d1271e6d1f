"""The bash tool, its background jobs, and the scan after each command."""
