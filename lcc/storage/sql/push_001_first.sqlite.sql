-- What sites push (lcc.storage.push), in a file of its own: who pushes must not wait while the queue manager writes.
-- Times are seconds since 1970 (UTC).  Written by the push server, and lcc-admin push (the state of a key).

-- Keys that sites have named.
CREATE TABLE pushkey (
    id BLOB NOT NULL PRIMARY KEY,               -- digest of key and location
    site TEXT NOT NULL,                         -- scheme://host[:port]/ of the file
    keytext TEXT NOT NULL,
    location TEXT NOT NULL,                     -- URL of the file
    folder TEXT NOT NULL,                       -- for whose URLs it speaks
    state TEXT NOT NULL,                        -- waiting, approval, approved, proven, refused
    pid INTEGER NOT NULL,                       -- provider of the folder; 0: not known yet
    why TEXT NOT NULL,                          -- of its last failure
    made_time INTEGER NOT NULL,
    proven_time INTEGER NOT NULL,               -- 0: never
    due_time INTEGER NOT NULL,                  -- when its file is fetched, or may be again
    failures INTEGER NOT NULL                   -- in succession
) WITHOUT ROWID;
CREATE INDEX pushkey_due ON pushkey (state, due_time);
CREATE INDEX pushkey_site ON pushkey (site, keytext);

-- Sets of URLs: the outbox to the UNS, and what became of them.
CREATE TABLE pushset (
    number INTEGER NOT NULL PRIMARY KEY,        -- of the set at the UNS, once its key is proven
    keyid BLOB NOT NULL,
    state INTEGER NOT NULL,                     -- 0 waits for the proof, 1 to be told, 2 told, 3 refused
    pid INTEGER NOT NULL,                       -- 0: not known yet
    connorder INTEGER NOT NULL,                 -- order number; 0: none is drawn yet
    urls TEXT NOT NULL,                         -- JSON: attributes of each <url>; empty once it is told or refused
    urlcount INTEGER NOT NULL,
    answer TEXT NOT NULL,                       -- what was refused
    time INTEGER NOT NULL                       -- when it was pushed
);
CREATE INDEX pushset_state ON pushset (state, number);
CREATE INDEX pushset_key ON pushset (keyid, number);
