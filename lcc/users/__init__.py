"""The former name of :mod:`lcc.client`, kept for programs that import it."""
