"""The cache of a front end: rows of several sub-LCCs as if they were of one (seed 002, section 12: FEC-API)."""
