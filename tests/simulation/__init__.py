"""The whole LCC in one process, on one clock, while everything goes wrong that a seed can think of (``make sim``)."""
