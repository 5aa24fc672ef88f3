-- Full sets that are applied but for the deletion of what they did not name, because that is so much.  It waits for
-- somebody's word.
CREATE TABLE IF NOT EXISTS heldsweeps (
    pid INT NOT NULL PRIMARY KEY,
    psetid BIGINT NOT NULL,                     -- of the full set
    connseq BIGINT NOT NULL,                    -- its place in the order of the provider's sets
    deletions BIGINT NOT NULL,                  -- pages that it would have deleted, cached or queued, within the roots
    told BIGINT NOT NULL,                       -- of so many: these, and the others in the cache
    time BIGINT NOT NULL                        -- when it was held
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
