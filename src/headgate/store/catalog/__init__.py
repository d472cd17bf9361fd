"""Types, lanes, resources, rate limits and streams."""
