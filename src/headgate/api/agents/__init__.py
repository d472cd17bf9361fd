"""Agents: programs in any language that fetch tasks over HTTP, and report."""
