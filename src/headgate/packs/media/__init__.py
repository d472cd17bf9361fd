"""The request queue: its lanes, the types of its requests, and those of the upkeep around them."""
