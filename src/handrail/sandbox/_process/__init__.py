"""A running command: started, read, and killed with every process it started."""
