"""The sources of values: their kinds, the markers on types, and their text for people."""
