"""Sources: who named the values in a call, and markers for these values."""

from handrail._definition.tool import OwnValues
from handrail._labels.sources import Destination, Own, OwnValue, Said, SourceKind, ValueSource
from handrail._labels.text import describe_sources, split_question
from handrail._sources.frames import frame_result, unframe
from handrail._sources.heard import HAS_READ, Heard, HeardCall

__all__ = [
    "HAS_READ",
    "Destination",
    "Heard",
    "HeardCall",
    "Own",
    "OwnValue",
    "OwnValues",
    "Said",
    "SourceKind",
    "ValueSource",
    "describe_sources",
    "frame_result",
    "split_question",
    "unframe",
]
