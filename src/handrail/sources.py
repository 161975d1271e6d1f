"""Sources: who named the values in a call, and markers for these values."""

from handrail._sources.heard import Heard
from handrail._values._sources.text import describe_sources
from handrail._values._sources.values import Destination, Own, OwnValue, SourceKind, ValueSource

__all__ = [
    "Destination",
    "Heard",
    "Own",
    "OwnValue",
    "SourceKind",
    "ValueSource",
    "describe_sources",
]
