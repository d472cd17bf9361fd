"""The only place that speaks SQL: one contract, two databases."""
