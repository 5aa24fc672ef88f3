"""On a real Galera cluster of three nodes: ``make galera``; doc/galera.md tells what holds there."""
