-- Order numbers are drawn for sets, connections are counted beside them (lcc.storage.providers.sessions).
ALTER TABLE connections ADD COLUMN sessions INTEGER NOT NULL DEFAULT 0;   -- the provider's connections up to countedseq
ALTER TABLE connections ADD COLUMN countedseq INTEGER NOT NULL DEFAULT 0; -- lastconnseq when they were counted: what was
                                                                          -- drawn since are connections at older UNSes
-- Unsolicited full sets that the queue manager may not have counted yet.
CREATE TABLE fullsets (
    pid INTEGER NOT NULL,
    connseq INTEGER NOT NULL,               -- the set's order number
    uns TEXT NOT NULL,                      -- where it is
    time INTEGER NOT NULL,                  -- when it began
    PRIMARY KEY (pid, connseq)
) WITHOUT ROWID;
