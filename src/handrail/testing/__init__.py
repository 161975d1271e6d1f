"""Test agents with a model that follows a script, or with a run that was recorded."""

from handrail.testing._recorded_run import RecordedRun
from handrail.testing._scripted import OffScript, ScriptedModel, Step

__all__ = ["OffScript", "RecordedRun", "ScriptedModel", "Step"]
