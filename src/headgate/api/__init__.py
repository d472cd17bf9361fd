"""The HTTP API: anything that speaks HTTP can submit, watch, control and execute work."""
