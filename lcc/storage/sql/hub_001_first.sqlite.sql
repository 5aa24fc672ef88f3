-- Subscribers of the hub of content users (WebSub; lcc.storage.hub), in a file of its own: who delivers must not wait while the
-- queue manager writes.  Times are seconds since 1970 (UTC).  Written by the content user API that has the hub.

-- Requests that their callbacks have yet to confirm.
CREATE TABLE hubask (
    id BLOB NOT NULL PRIMARY KEY,               -- digest of callback and topic
    callback TEXT NOT NULL,
    topic TEXT NOT NULL,
    mode TEXT NOT NULL,                         -- subscribe, unsubscribe
    secret TEXT NOT NULL,                       -- with which deliveries are signed; empty: they are not
    lease_seconds INTEGER NOT NULL,
    cuid INTEGER NOT NULL,                      -- content user; 0: without a token
    timeline TEXT NOT NULL,                     -- from which change on; empty: from now on
    number INTEGER NOT NULL,
    due_time INTEGER NOT NULL,                  -- when the callback is asked
    failures INTEGER NOT NULL,
    party TEXT NOT NULL                         -- user or address that asks; empty: not known
) WITHOUT ROWID;
CREATE INDEX hubask_due ON hubask (due_time);

-- Subscribers.
CREATE TABLE hubsub (
    id BLOB NOT NULL PRIMARY KEY,               -- digest of callback and topic
    topicid BLOB NOT NULL,                      -- digest of the topic
    callback TEXT NOT NULL,
    topic TEXT NOT NULL,
    secret TEXT NOT NULL,
    cuid INTEGER NOT NULL,
    timeline TEXT NOT NULL,                     -- of the last change that was delivered
    number INTEGER NOT NULL,                    -- its number
    dropped INTEGER NOT NULL,                   -- 1: it is told so, then forgotten
    due_time INTEGER NOT NULL,                  -- when something is delivered next; 0: nothing is owed
    expires_time INTEGER NOT NULL,
    made_time INTEGER NOT NULL,
    site TEXT NOT NULL,                         -- of the callback
    failures INTEGER NOT NULL,                  -- of deliveries in succession
    since_time INTEGER NOT NULL,                -- when the first of them failed; 0: none has
    delivered_time INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    why TEXT NOT NULL                           -- the last one failed, or it is dropped
) WITHOUT ROWID;
CREATE INDEX hubsub_topic ON hubsub (topicid, due_time);
CREATE INDEX hubsub_due ON hubsub (due_time, id);
CREATE INDEX hubsub_expires ON hubsub (expires_time);
