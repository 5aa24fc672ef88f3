"""Servers that do what no server should, as data and as one program."""
