-- Sets that providers submit by HTTP with an Idempotency-Key, so that a repeated request is one set.
CREATE TABLE setrequest (
    id BLOB NOT NULL PRIMARY KEY,               -- digest of provider and key
    pid INTEGER NOT NULL,
    query BLOB NOT NULL,                        -- digest of what was asked for besides the elements
    connorder INTEGER NOT NULL,                 -- order number of the set
    status INTEGER NOT NULL,                    -- of the answer; 0: none is known yet
    answer TEXT NOT NULL,                       -- its lines of JSON
    time INTEGER NOT NULL                       -- when it began
) WITHOUT ROWID;
CREATE INDEX setrequest_time ON setrequest (time);
