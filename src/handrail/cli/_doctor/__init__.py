"""Checks for `handrail doctor`: the machine and the settings."""
