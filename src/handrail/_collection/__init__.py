"""Tools together: an immutable set, a live registry, sources, lint."""
