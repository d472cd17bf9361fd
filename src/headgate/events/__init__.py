"""What happens, told to everybody who listens."""
