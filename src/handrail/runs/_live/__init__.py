"""Live text: sent by a worker before the reply is complete, and read in any process."""
