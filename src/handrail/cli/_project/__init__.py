"""The tools, models and trust of a workspace."""
