"""All benchmarks with goals, in one table: ``make bench``."""
