"""Executions and who runs them: reports, ends, leases."""
