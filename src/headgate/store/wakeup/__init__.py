"""Hints between processes: there is work, a request, a callback to send."""
