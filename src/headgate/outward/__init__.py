"""Requests to addresses that users name: parsed strictly, and judged at each send."""
