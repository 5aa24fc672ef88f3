"""Each part of the queue manager by itself: a fake hub, and a store that answers when the test says so."""
