"""API keys and console sessions."""
