"""Tools as an MCP server: the official SDK talks, an executor decides and runs."""
