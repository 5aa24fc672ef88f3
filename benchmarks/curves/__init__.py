"""How the LCC scales, as pictures: ``make bench-curves``."""
