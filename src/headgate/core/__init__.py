"""The rules of the engine, pure: no I/O, no clock, no randomness."""
