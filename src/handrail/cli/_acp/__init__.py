"""The coding agent in an editor, by the Agent Client Protocol."""
