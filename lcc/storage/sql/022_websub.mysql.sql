-- Subscriptions of feeds at hubs (WebSub; lcc.storage.push.subscriptions).  Written by the push server.
CREATE TABLE IF NOT EXISTS websub (
    id CHAR(32) NOT NULL,                       -- the last part of its callback's path: nobody can guess it
    task BIGINT NOT NULL,                       -- the feed
    topic TEXT NOT NULL,
    hub TEXT NOT NULL,
    secret CHAR(64) NOT NULL,                   -- with which the hub signs
    state VARCHAR(16) NOT NULL,                 -- asking, active, dropped, leaving
    made_time BIGINT NOT NULL,
    due_time BIGINT NOT NULL,                   -- when the hub is asked, or it is given up that it answers
    asked_time BIGINT NOT NULL,                 -- when it was asked, and has not confirmed since; 0: nothing is open
    active_time BIGINT NOT NULL,                -- when it confirmed for the first time; 0: never
    lease_seconds BIGINT NOT NULL,
    expires_time BIGINT NOT NULL,
    failures INT NOT NULL,                      -- attempts to subscribe in succession that came to nothing
    why TEXT NOT NULL,                          -- the last one did, or it is dropped
    pushed_time BIGINT NOT NULL,                -- of the last push; 0: there was none
    pushes BIGINT NOT NULL,
    poll_time BIGINT NOT NULL,                  -- when the feed is to be polled because of a push; 0: not
    looks INT NOT NULL,                         -- further polls behind that, in case it finds nothing
    polled_time BIGINT NOT NULL,                -- when it was polled for that reason last
    backup_time BIGINT NOT NULL,                -- when it would be polled, had there been no push; 0: as its task says
    news_time BIGINT NOT NULL,                  -- of the last news that were looked at
    judge_time BIGINT NOT NULL,                 -- by then a push of the newest news must have come; 0: there are none
    missed INT NOT NULL,                        -- news in succession of which no push came
    PRIMARY KEY (id),
    KEY websub_task (task),
    KEY websub_due (due_time, id),
    KEY websub_poll (poll_time),
    KEY websub_backup (backup_time),
    KEY websub_judge (judge_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The push server follows which feeds were read (lcc.storage.tasks.feeds.hubs).
CREATE INDEX feeds_read ON feeds (read_time, task);
