"""How executors get tasks: every gate of a task checked in one transaction."""
