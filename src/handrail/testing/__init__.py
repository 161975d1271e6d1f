"""Test agents with a scripted model, or with a recorded run."""

from handrail.testing._recorded_run import RecordedRun
from handrail.testing._scripted import OffScript, ScriptedModel, Step

__all__ = ["OffScript", "RecordedRun", "ScriptedModel", "Step"]
