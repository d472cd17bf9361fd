"""Who may come in: keys, sessions and signatures, and what every answer carries."""
