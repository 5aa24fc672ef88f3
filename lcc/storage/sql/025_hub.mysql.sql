-- Subscribers of the hub of content users (WebSub; lcc.storage.hub).
-- Times are seconds since 1970 (UTC).  Written by the content user API that has the hub.

-- Requests that their callbacks have yet to confirm.
CREATE TABLE IF NOT EXISTS hubask (
    id BINARY(16) NOT NULL,                     -- digest of callback and topic
    callback TEXT NOT NULL,
    topic TEXT NOT NULL,
    mode VARCHAR(16) NOT NULL,                  -- subscribe, unsubscribe
    secret VARCHAR(255) NOT NULL,               -- with which deliveries are signed; empty: they are not
    lease_seconds BIGINT NOT NULL,
    cuid BIGINT NOT NULL,                       -- content user; 0: without a token
    timeline VARCHAR(64) NOT NULL,              -- from which change on; empty: from now on
    number BIGINT NOT NULL,
    due_time BIGINT NOT NULL,                   -- when the callback is asked
    failures INT NOT NULL,
    party VARCHAR(64) NOT NULL,                 -- user or address that asks; empty: not known
    PRIMARY KEY (id),
    KEY hubask_due (due_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Subscribers.
CREATE TABLE IF NOT EXISTS hubsub (
    id BINARY(16) NOT NULL,                     -- digest of callback and topic
    topicid BINARY(16) NOT NULL,                -- digest of the topic
    callback TEXT NOT NULL,
    topic TEXT NOT NULL,
    secret VARCHAR(255) NOT NULL,
    cuid BIGINT NOT NULL,
    timeline VARCHAR(64) NOT NULL,              -- of the last change that was delivered
    number BIGINT NOT NULL,                     -- its number
    dropped INT NOT NULL,                       -- 1: it is told so, then forgotten
    due_time BIGINT NOT NULL,                   -- when something is delivered next; 0: nothing is owed
    expires_time BIGINT NOT NULL,
    made_time BIGINT NOT NULL,
    site VARCHAR(300) NOT NULL,                 -- of the callback
    failures INT NOT NULL,                      -- of deliveries in succession
    since_time BIGINT NOT NULL,                 -- when the first of them failed; 0: none has
    delivered_time BIGINT NOT NULL,
    deliveries BIGINT NOT NULL,
    why TEXT NOT NULL,                          -- the last one failed, or it is dropped
    PRIMARY KEY (id),
    KEY hubsub_topic (topicid, due_time),
    KEY hubsub_due (due_time, id),
    KEY hubsub_expires (expires_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
