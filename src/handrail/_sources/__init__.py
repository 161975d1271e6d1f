"""Who named the values in a call: what people wrote, and what tools returned, in one run."""
