"""The audit and the feed made of it."""
