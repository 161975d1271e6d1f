"""Where rules, trust and remembered approvals are stored."""
