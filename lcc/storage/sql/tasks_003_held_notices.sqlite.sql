-- Hints that wait until the robots.txt of their site is known (lcc.storage.tasks.polling.robots).
CREATE TABLE heldnotices (
    number INTEGER NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL,                       -- as in robots
    url TEXT NOT NULL,
    source TEXT NOT NULL,                       -- feed, link
    op TEXT NOT NULL,                           -- update, recheck
    mimetype TEXT NOT NULL,                     -- empty: not known
    job INTEGER NOT NULL,                       -- that notifies
    time INTEGER NOT NULL
);
CREATE INDEX heldnotices_origin ON heldnotices (origin, number);
