"""Throwaway servers for the tests and the benchmarks."""
