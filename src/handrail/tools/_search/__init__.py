"""grep and glob, over ripgrep."""
