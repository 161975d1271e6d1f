"""Logins at servers by OAuth: tokens, the way back from a browser, and the flow of the SDK."""
