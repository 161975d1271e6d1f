"""Who named the values of a call: what people wrote, and what tools returned, in one run."""
