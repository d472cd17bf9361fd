"""Benchmarks: always ratios, measured in one run beside the store's raw limit."""
