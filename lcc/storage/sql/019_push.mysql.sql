-- What sites push (lcc.storage.push).
-- Times are seconds since 1970 (UTC).  Written by the push server, and lcc-admin push (the state of a key).

-- Keys that sites have named.
CREATE TABLE IF NOT EXISTS pushkey (
    id BINARY(16) NOT NULL,                     -- digest of key and location
    site VARCHAR(300) NOT NULL,                 -- scheme://host[:port]/ of the file
    keytext VARCHAR(128) NOT NULL,
    location TEXT NOT NULL,                     -- URL of the file
    folder TEXT NOT NULL,                       -- for whose URLs it speaks
    state VARCHAR(16) NOT NULL,                 -- waiting, approval, approved, proven, refused
    pid BIGINT NOT NULL,                        -- provider of the folder; 0: not known yet
    why TEXT NOT NULL,                          -- of its last failure
    made_time BIGINT NOT NULL,
    proven_time BIGINT NOT NULL,                -- 0: never
    due_time BIGINT NOT NULL,                   -- when its file is fetched, or may be again
    failures INT NOT NULL,                      -- in succession
    PRIMARY KEY (id),
    KEY pushkey_due (state, due_time),
    KEY pushkey_site (site, keytext)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sets of URLs: the outbox to the UNS, and what became of them.
CREATE TABLE IF NOT EXISTS pushset (
    number BIGINT NOT NULL,                     -- of the set at the UNS, once its key is proven
    keyid BINARY(16) NOT NULL,
    state SMALLINT NOT NULL,                    -- 0 waits for the proof, 1 to be told, 2 told, 3 refused
    pid BIGINT NOT NULL,                        -- 0: not known yet
    connorder BIGINT NOT NULL,                  -- order number; 0: none is drawn yet
    urls LONGTEXT NOT NULL,                     -- JSON: attributes of each <url>; empty once it is told or refused
    urlcount INT NOT NULL,
    answer TEXT NOT NULL,                       -- what was refused
    time BIGINT NOT NULL,                       -- when it was pushed
    PRIMARY KEY (number),
    KEY pushset_state (state, number),
    KEY pushset_key (keyid, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
