"""What tests of agents need: a model without a model."""

from handrail.testing._scripted import OffScript, ScriptedModel, Step

__all__ = ["OffScript", "ScriptedModel", "Step"]
