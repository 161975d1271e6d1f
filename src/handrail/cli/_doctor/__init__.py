"""The checks of `handrail doctor`: the machine and the settings."""
