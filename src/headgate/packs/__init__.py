"""What is built upon the engine for one trade; each pack is a folder of its own."""
