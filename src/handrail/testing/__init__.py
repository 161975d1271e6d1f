"""Test agents with a model that follows a script."""

from handrail.testing._scripted import OffScript, ScriptedModel, Step

__all__ = ["OffScript", "ScriptedModel", "Step"]
