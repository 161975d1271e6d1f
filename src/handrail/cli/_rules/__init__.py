"""Rule files: reading, checking, describing and proposing rules."""
