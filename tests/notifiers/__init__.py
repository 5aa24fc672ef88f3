"""The port of notifiers: both ends."""
