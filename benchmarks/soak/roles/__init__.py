"""All roles at once, each with its own work, for a long time: ``make soak-roles``."""
