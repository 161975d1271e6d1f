"""Files of a workspace: paths, reading, replacing, undoing."""
