"""Finished tasks, and how long they are kept."""
