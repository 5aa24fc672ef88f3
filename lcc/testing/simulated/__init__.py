"""A world for the LCC to run in: many machines, processes, connections and disks in one process, on one clock.

Everything that happens is an event on one :class:`~lcc.testing.simulated.timeline.Timeline`; one seed decides what
happens and in which order, so that the same seed gives the same run, event by event.  The roles run as they are, put
together by their own ``makeService``; only what they take from outside of them
(:class:`lcc.services.process.environment.Environment`) is simulated.
"""
