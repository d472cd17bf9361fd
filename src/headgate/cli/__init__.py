"""The command line: see and steer everything from a terminal."""
