"""Tasks: submitted, changed by people, queued behind a mutex, ended."""
