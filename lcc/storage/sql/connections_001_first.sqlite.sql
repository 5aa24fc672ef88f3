-- Order numbers (lcc.storage.providers.sessions), in a file of their own: a UNS must not wait while the queue manager writes.
CREATE TABLE connections (
    pid INTEGER NOT NULL PRIMARY KEY,
    lastconnseq INTEGER NOT NULL,           -- the last order number drawn
    lastconnip TEXT NOT NULL,               -- where the last one came from
    lastconntime INTEGER NOT NULL
);
