"""Measurements: `python -m benchmarks` lists and runs them. Figures of one run are compared as ratios, never asserted."""
