"""Events of tasks, for everyone who listens."""
