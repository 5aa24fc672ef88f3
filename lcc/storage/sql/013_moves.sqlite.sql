-- Moves of providers between sub-LCCs (doc/moves.md).  Written by the queue manager only.

-- Fences of the front end that are obeyed here.
CREATE TABLE fenced (
    pid INTEGER NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,                     -- only a higher one changes the row
    state TEXT NOT NULL,                        -- open, followed, frozen, arriving, left (lcc.model.frontend.moves.Fence)
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

-- What else the source has of a provider, until it is here.
CREATE TABLE staged (
    pid INTEGER NOT NULL,
    kind TEXT NOT NULL,                         -- the table there; cursor: how far it is copied
    rowkey BLOB NOT NULL,                       -- of the row; of errors the number, in order
    rowtext TEXT NOT NULL,                      -- all columns, JSON
    PRIMARY KEY (pid, kind, rowkey)
) WITHOUT ROWID;

-- Rows of lccurl and qdb of the source, until they are here: all columns as there, and some more.  0 or an empty text
-- is NULL in columns where most rows have it (lcc.storage.queue.moves.paged).
CREATE TABLE stagedcache (
    urlkey BLOB NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    state INTEGER NOT NULL,
    change_number INTEGER NOT NULL,
    change_time INTEGER,
    connseq INTEGER,
    seen INTEGER,
    generation INTEGER,
    source INTEGER NOT NULL,
    words TEXT,
    curl TEXT NOT NULL,
    furl TEXT,
    burl TEXT,
    mimetype TEXT NOT NULL,
    subtype TEXT,
    hours TEXT,
    told_md5 TEXT,
    told_len INTEGER,
    told_mtime INTEGER,
    md5 TEXT,
    len INTEGER,
    mtime INTEGER,
    status INTEGER NOT NULL,
    charset TEXT,
    etag TEXT,
    modified INTEGER,
    revalidate INTEGER NOT NULL,
    headers TEXT,
    fetched_time INTEGER,
    fetched_machineid INTEGER,
    fetched_fileid INTEGER,
    fetched_url TEXT,
    moved_url TEXT,
    confirmed_time INTEGER,
    origin_subid INTEGER,                       -- where it was imported from (origins); NULL: it was not, or has changed since
    origin_number INTEGER,
    carried BLOB                                -- key of the row of lccurl that has its content here; NULL: it has none
) WITHOUT ROWID;
CREATE TABLE stagedqueue (
    urlkey BLOB NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    psetid INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    operation INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    connseq INTEGER NOT NULL,
    attempts INTEGER,
    unreached INTEGER,
    seen INTEGER,
    source INTEGER NOT NULL,
    words TEXT,
    curl TEXT NOT NULL,
    furl TEXT,
    burl TEXT,
    mimetype TEXT NOT NULL,
    subtype TEXT,
    md5 TEXT,
    len INTEGER,
    mtime INTEGER,
    hours TEXT NOT NULL,
    ifabsent INTEGER,
    sent TEXT NOT NULL,
    bad_code INTEGER,
    bad_text TEXT,
    bad_time INTEGER,
    set_connseq INTEGER,                        -- of its set there (qpsdb); NULL: not known
    set_fullset INTEGER,
    set_time INTEGER
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
