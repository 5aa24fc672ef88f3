"""Half of the measured rate for a long time, then ten times as much for a while: ``make soak``."""
