-- The push server follows which feeds were read (lcc.storage.tasks.feeds.hubs).
CREATE INDEX feeds_read ON feeds (read_time, task);
