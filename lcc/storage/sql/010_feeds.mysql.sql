-- Feeds, the items that workers have collected, and the text of pages (lcc.storage.tasks.feeds.items).  Written by the scheduler only.

INSERT IGNORE INTO schedulerfence (name, value) VALUES ('item', 0);  -- change number of an item

-- What feeds say of themselves.
CREATE TABLE IF NOT EXISTS feeds (
    task BIGINT NOT NULL,                       -- that reads it
    policy VARCHAR(255) NOT NULL,               -- by what its items are known: id, link, hash; empty: not decided yet
    record MEDIUMTEXT NOT NULL,                 -- JSON (lcc.model.feeds.FeedInfo)
    read_time BIGINT NOT NULL,                  -- when its document was read last
    changed_time BIGINT NOT NULL,               -- when it had new or changed items last; 0: never
    PRIMARY KEY (task)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Items, as they are now.  Kept for a time after they were seen last (scheduler.items_kept), of each task so many
-- (scheduler.items_max).
CREATE TABLE IF NOT EXISTS feeditems (
    task BIGINT NOT NULL,                       -- whose job has stored it; 0: that of no task
    identity BINARY(16) NOT NULL,               -- by what it is known (lcc.domain.tasks.items)
    change_number BIGINT NOT NULL,              -- in the order of commits
    digest BINARY(16) NOT NULL,                 -- of what is news when it changes
    digest_before VARBINARY(16) NOT NULL,       -- of the version before; empty: none
    flaps BIGINT NOT NULL,                      -- how often it went back to that
    link BINARY(8),                             -- hash of its link; NULL: it has none
    published BIGINT,                           -- as it says
    found_time BIGINT NOT NULL,                 -- when it was new
    changed_time BIGINT NOT NULL,               -- when it was new, or changed last
    seen_time BIGINT NOT NULL,                  -- when it was in a document last, within a day
    size_bytes BIGINT NOT NULL,                 -- of the record
    record MEDIUMTEXT NOT NULL,                 -- JSON (lcc.model.feeds.FeedItem)
    PRIMARY KEY (task, identity),
    UNIQUE KEY feeditems_change (change_number),
    KEY feeditems_link (link, task),
    KEY feeditems_seen (seen_time, task, identity),
    -- How much a task has, and what goes first.
    KEY feeditems_task (task, seen_time, change_number, size_bytes)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The text of pages, by the key of the page in lccurl.
CREATE TABLE IF NOT EXISTS texts (
    urlkey BINARY(20) NOT NULL,
    md5 VARCHAR(255) NOT NULL,                  -- of the content that it was made of
    title MEDIUMTEXT NOT NULL,
    language VARCHAR(255) NOT NULL,             -- as the page says; empty: it does not
    method VARCHAR(255) NOT NULL,               -- what made it: trafilatura, lxml, plain
    cut BIGINT NOT NULL,                        -- 1: it was longer
    made_time BIGINT NOT NULL,
    text MEDIUMTEXT NOT NULL,
    PRIMARY KEY (urlkey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
