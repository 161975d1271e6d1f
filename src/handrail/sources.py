"""Sources: who named the values in a call, and markers for these values."""

from handrail._labels.sources import Destination, Own, OwnValue, SourceKind, ValueSource
from handrail._labels.text import describe_sources
from handrail._sources.heard import Heard

__all__ = [
    "Destination",
    "Heard",
    "Own",
    "OwnValue",
    "SourceKind",
    "ValueSource",
    "describe_sources",
]
