"""From rules and a call to a decision."""
