"""The base of every command: settings, options, output, signals and exit codes."""
