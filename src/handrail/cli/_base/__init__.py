"""The base for every command: settings, options, output, signals and exit codes."""
