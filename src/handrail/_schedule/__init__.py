"""Which call can start when: records, without clocks or tasks."""
