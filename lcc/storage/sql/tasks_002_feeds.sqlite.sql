-- Feeds, the items that workers have collected, and the text of pages (lcc.storage.tasks.feeds.items).  Written by the scheduler only.

INSERT INTO schedulerfence (name, value) VALUES ('item', 0);  -- change number of an item

-- What feeds say of themselves.
CREATE TABLE feeds (
    task INTEGER NOT NULL PRIMARY KEY,          -- that reads it
    policy TEXT NOT NULL,                       -- by what its items are known: id, link, hash; empty: not decided yet
    record TEXT NOT NULL,                       -- JSON (lcc.model.feeds.FeedInfo)
    read_time INTEGER NOT NULL,                 -- when its document was read last
    changed_time INTEGER NOT NULL               -- when it had new or changed items last; 0: never
);

-- Items, as they are now.  Kept for a time after they were seen last (scheduler.items_kept), of each task so many
-- (scheduler.items_max).
CREATE TABLE feeditems (
    task INTEGER NOT NULL,                      -- whose job has stored it; 0: that of no task
    identity BLOB NOT NULL,                     -- by what it is known (lcc.domain.tasks.items)
    change_number INTEGER NOT NULL,             -- in the order of commits
    digest BLOB NOT NULL,                       -- of what is news when it changes
    digest_before BLOB NOT NULL,                -- of the version before; empty: none
    flaps INTEGER NOT NULL,                     -- how often it went back to that
    link BLOB,                                  -- hash of its link; NULL: it has none
    published INTEGER,                          -- as it says
    found_time INTEGER NOT NULL,                -- when it was new
    changed_time INTEGER NOT NULL,              -- when it was new, or changed last
    seen_time INTEGER NOT NULL,                 -- when it was in a document last, within a day
    size_bytes INTEGER NOT NULL,                -- of the record
    record TEXT NOT NULL,                       -- JSON (lcc.model.feeds.FeedItem)
    PRIMARY KEY (task, identity)
) WITHOUT ROWID;
CREATE UNIQUE INDEX feeditems_change ON feeditems (change_number);
CREATE INDEX feeditems_link ON feeditems (link, task);
CREATE INDEX feeditems_seen ON feeditems (seen_time, task, identity);
-- How much a task has, and what goes first.
CREATE INDEX feeditems_task ON feeditems (task, seen_time, change_number, size_bytes);

-- The text of pages, by the key of the page in lccurl.
CREATE TABLE texts (
    urlkey BLOB NOT NULL PRIMARY KEY,
    md5 TEXT NOT NULL,                          -- of the content that it was made of
    title TEXT NOT NULL,
    language TEXT NOT NULL,                     -- as the page says; empty: it does not
    method TEXT NOT NULL,                       -- what made it: trafilatura, lxml, plain
    cut INTEGER NOT NULL,                       -- 1: it was longer
    made_time INTEGER NOT NULL,
    text TEXT NOT NULL
);
