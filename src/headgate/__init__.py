"""Headgate runs background tasks: each starts when every gate is open."""

__version__ = "0.1.0"
