"""The gateway: many servers behind one, with rules, limits and health."""
