-- Subscriptions of feeds at hubs (WebSub; lcc.storage.push.subscriptions).  Written by the push server.
CREATE TABLE websub (
    id TEXT NOT NULL PRIMARY KEY,               -- the last part of its callback's path: nobody can guess it
    task INTEGER NOT NULL,                      -- the feed
    topic TEXT NOT NULL,
    hub TEXT NOT NULL,
    secret TEXT NOT NULL,                       -- with which the hub signs
    state TEXT NOT NULL,                        -- asking, active, dropped, leaving
    made_time INTEGER NOT NULL,
    due_time INTEGER NOT NULL,                  -- when the hub is asked, or it is given up that it answers
    asked_time INTEGER NOT NULL,                -- when it was asked, and has not confirmed since; 0: nothing is open
    active_time INTEGER NOT NULL,               -- when it confirmed for the first time; 0: never
    lease_seconds INTEGER NOT NULL,
    expires_time INTEGER NOT NULL,
    failures INTEGER NOT NULL,                  -- attempts to subscribe in succession that came to nothing
    why TEXT NOT NULL,                          -- the last one did, or it is dropped
    pushed_time INTEGER NOT NULL,               -- of the last push; 0: there was none
    pushes INTEGER NOT NULL,
    poll_time INTEGER NOT NULL,                 -- when the feed is to be polled because of a push; 0: not
    looks INTEGER NOT NULL,                     -- further polls behind that, in case it finds nothing
    polled_time INTEGER NOT NULL,               -- when it was polled for that reason last
    backup_time INTEGER NOT NULL,               -- when it would be polled, had there been no push; 0: as its task says
    news_time INTEGER NOT NULL,                 -- of the last news that were looked at
    judge_time INTEGER NOT NULL,                -- by then a push of the newest news must have come; 0: there are none
    missed INTEGER NOT NULL                     -- news in succession of which no push came
) WITHOUT ROWID;
CREATE INDEX websub_task ON websub (task);
CREATE INDEX websub_due ON websub (due_time, id);
CREATE INDEX websub_poll ON websub (poll_time);
CREATE INDEX websub_backup ON websub (backup_time);
CREATE INDEX websub_judge ON websub (judge_time);
