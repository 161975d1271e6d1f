"""The files of a workspace that need trust, and how they are shown."""
