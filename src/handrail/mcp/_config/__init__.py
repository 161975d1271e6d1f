"""Server configuration, as people have it for other programs."""
