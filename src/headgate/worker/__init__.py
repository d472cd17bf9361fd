"""Executing tasks: a worker claims them, runs their handlers and settles how they ended."""
