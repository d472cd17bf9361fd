"""Requests to addresses that users name: read strictly, judged at each send, never more than was promised."""
