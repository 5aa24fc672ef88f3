-- Moves of providers between sub-LCCs (doc/moves.md).  Written by the queue manager only.

-- Fences of the front end that are obeyed here.
CREATE TABLE fenced (
    pid INTEGER NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,                     -- only a higher one changes the row
    state TEXT NOT NULL,                        -- open, followed, frozen, arriving, left (lcc.model.moves.Fence)
    edits INTEGER NOT NULL DEFAULT 0            -- grows when its row of pidb is changed, so that this and a fence exclude each other
);

-- Keys of rows (lccurl, qdb) of followed and frozen providers that have changed since they are followed.
CREATE TABLE touched (
    urlkey BLOB NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    number INTEGER NOT NULL                     -- of the transaction that has changed it last (counters.touched)
) WITHOUT ROWID;
CREATE INDEX touched_number ON touched (pid, number, urlkey);

-- Sets of fenced providers, which UNSes had taken before: a row for each piece, in the order of their ids.
CREATE TABLE heldsets (
    id INTEGER NOT NULL PRIMARY KEY,            -- counters.held
    pid INTEGER NOT NULL,
    uns BLOB NOT NULL,                          -- whose set it is, UTF-8
    epoch BLOB NOT NULL,                        -- of its spool
    number INTEGER NOT NULL,                    -- of the set there
    firstindex INTEGER NOT NULL,                -- elements of the set before this piece
    whole INTEGER NOT NULL,                     -- id of the last piece; 0: that has not come
    header TEXT NOT NULL,                       -- JSON
    notices TEXT NOT NULL,                      -- JSON
    time INTEGER NOT NULL                       -- when it was held
);
CREATE UNIQUE INDEX heldsets_piece ON heldsets (uns, epoch, number, firstindex);
CREATE INDEX heldsets_pid ON heldsets (pid, whole);

-- Rows of the source, until the provider is here.
CREATE TABLE staged (
    pid INTEGER NOT NULL,
    kind TEXT NOT NULL,                         -- the table there; cursor: how far it is copied
    rowkey BLOB NOT NULL,                       -- of the row; of errors the number, in order
    content TEXT NOT NULL,                      -- MACHINE/FILE of its content there; empty: none
    rowtext TEXT NOT NULL,                      -- all columns, JSON
    PRIMARY KEY (pid, kind, rowkey)
) WITHOUT ROWID;

-- Where imported rows of the cache have last changed.
CREATE TABLE origins (
    urlkey BLOB NOT NULL PRIMARY KEY,
    change_number INTEGER NOT NULL,             -- that the row got here; another one now: it has changed since
    subid INTEGER NOT NULL,                     -- the sub-LCC
    number INTEGER NOT NULL                     -- its change number there
) WITHOUT ROWID;
CREATE INDEX origins_change ON origins (change_number);

-- Providers that have moved from here, or to here.
CREATE TABLE flips (
    flip INTEGER NOT NULL PRIMARY KEY,          -- the version of the map (moves.flip of the front end)
    pid INTEGER NOT NULL,
    subid INTEGER NOT NULL,                     -- the other sub-LCC
    arrived INTEGER NOT NULL,                   -- 1: it came here; 0: it left
    epoch INTEGER NOT NULL,                     -- of the provider
    time INTEGER NOT NULL                       -- when it was noted
);
CREATE INDEX flips_pid ON flips (pid, flip);
-- Roots of providers that have moved from here, and are not back: what lies in them is watched where they are.
CREATE TABLE leftroots (
    pid INTEGER NOT NULL,
    position INTEGER NOT NULL,
    root TEXT NOT NULL,
    watched INTEGER NOT NULL,                      -- 1: the provider is a watched one
    PRIMARY KEY (pid, position)
) WITHOUT ROWID;
CREATE INDEX leftroots_root ON leftroots (root);
INSERT INTO counters (name, value) VALUES ('held', 0), ('followed', 0), ('touched', 0);
