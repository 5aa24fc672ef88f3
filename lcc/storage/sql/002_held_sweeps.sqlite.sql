-- Full sets that are applied but for the deletion of what they did not name, because that is so much.  It waits for
-- somebody's word.
CREATE TABLE heldsweeps (
    pid INTEGER NOT NULL PRIMARY KEY,
    psetid INTEGER NOT NULL,                    -- of the full set
    connseq INTEGER NOT NULL,                   -- its place in the order of the provider's sets
    deletions INTEGER NOT NULL,                 -- pages that it would have deleted, cached or queued, within the roots
    told INTEGER NOT NULL,                      -- of so many: these, and the others in the cache
    time INTEGER NOT NULL                       -- when it was held
);
