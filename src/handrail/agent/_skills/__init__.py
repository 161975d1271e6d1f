"""Skills: find them in folders, list them in the prompt, load them with a tool."""
