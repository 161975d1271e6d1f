"""A small agent loop: a model calls tools until it has an answer. A run's state is one value."""

from handrail.agent._agent import Agent, RunArgs
from handrail.agent._arguments import AnyTools
from handrail.agent._event_stream import EventStream, StreamEvent
from handrail.agent._found_files import IsTrusted, Notice, Untrusted
from handrail.agent._history.codec import InvalidState, dump_state, load_state
from handrail.agent._history.compaction import Compaction, Shortened
from handrail.agent._history.given_answers import GivenAnswer
from handrail.agent._history.record_codec import add_steps
from handrail.agent._history.state import BackgroundCall, EarlyCall, RunState, Spent
from handrail.agent._instructions import Instructions, read_instructions
from handrail.agent._loop.budgets import Spender
from handrail.agent._loop.events import CallEvent, InnerEvent, ModelEvent, OnEvent, RunEvent
from handrail.agent._loop.limits import Limits
from handrail.agent._loop.recorder import Recorder
from handrail.agent._loop.settings import (
    AroundRun,
    NextRun,
    Prepare,
    RunResult,
    Save,
    StopReason,
    SystemPrompt,
    Unfinished,
)
from handrail.agent._result_folder import ResultFolder
from handrail.agent._run import Run
from handrail.agent._skills.skills import Skill, Skills, find_skills
from handrail.agent._task import skill_task_tool, task_tool

__all__ = [
    "Agent",
    "AnyTools",
    "AroundRun",
    "BackgroundCall",
    "CallEvent",
    "Compaction",
    "EarlyCall",
    "EventStream",
    "GivenAnswer",
    "InnerEvent",
    "Instructions",
    "InvalidState",
    "IsTrusted",
    "Limits",
    "ModelEvent",
    "NextRun",
    "Notice",
    "OnEvent",
    "Prepare",
    "Recorder",
    "ResultFolder",
    "Run",
    "RunArgs",
    "RunEvent",
    "RunResult",
    "RunState",
    "Save",
    "Shortened",
    "Skill",
    "Skills",
    "Spender",
    "Spent",
    "StopReason",
    "StreamEvent",
    "SystemPrompt",
    "Unfinished",
    "Untrusted",
    "add_steps",
    "dump_state",
    "find_skills",
    "load_state",
    "read_instructions",
    "skill_task_tool",
    "task_tool",
]
