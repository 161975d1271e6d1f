"""From a typed function to a tool: signature, description, arguments."""
