"""Callbacks: the outbox, their delivery, and what people see of them."""
