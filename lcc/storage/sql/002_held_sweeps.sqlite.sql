-- Full sets that are applied but for the deletion of what they did not name, because that is so much.  It waits for
-- somebody's word.
CREATE TABLE heldsweeps (
    pid INTEGER NOT NULL PRIMARY KEY,
    psetid INTEGER NOT NULL,                    -- of the full set
    connseq INTEGER NOT NULL,                   -- its place in the order of the provider's sets
    deletions INTEGER NOT NULL,                 -- rows of lccurl that it would have deleted, within the roots
    cached INTEGER NOT NULL,                    -- of so many with content
    time INTEGER NOT NULL                       -- when it was held
);
