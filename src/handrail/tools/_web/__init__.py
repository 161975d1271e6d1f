"""The web_fetch tool: pages of the web as text."""
