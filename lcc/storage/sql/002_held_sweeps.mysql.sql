-- Full sets that are applied but for the deletion of what they did not name, because that is so much.  It waits for
-- somebody's word.
CREATE TABLE IF NOT EXISTS heldsweeps (
    pid INT NOT NULL PRIMARY KEY,
    psetid BIGINT NOT NULL,                     -- of the full set
    connseq BIGINT NOT NULL,                    -- its place in the order of the provider's sets
    deletions BIGINT NOT NULL,                  -- rows of lccurl that it would have deleted, within the roots
    cached BIGINT NOT NULL,                     -- of so many with content
    time BIGINT NOT NULL                        -- when it was held
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
