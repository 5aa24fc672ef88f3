-- Moves of providers between sub-LCCs (doc/moves.md).  Written by the queue manager only.

-- Fences of the front end that are obeyed here.
CREATE TABLE IF NOT EXISTS fenced (
    pid INT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,                      -- only a higher one changes the row
    state VARCHAR(16) NOT NULL,                 -- open, followed, frozen, arriving, left (lcc.model.frontend.moves.Fence)
    edits BIGINT NOT NULL DEFAULT 0             -- grows when its row of pidb is changed, so that this and a fence exclude each other
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Keys of rows (lccurl, qdb) of followed and frozen providers that have changed since they are followed.
CREATE TABLE IF NOT EXISTS touched (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    pid INT NOT NULL,
    number BIGINT NOT NULL,                     -- of the transaction that has changed it last (counters.touched)
    INDEX touched_number (pid, number, urlkey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sets of fenced providers, which UNSes had taken before: a row for each piece, in the order of their ids.
CREATE TABLE IF NOT EXISTS heldsets (
    id BIGINT NOT NULL PRIMARY KEY,             -- counters.held
    pid INT NOT NULL,
    uns VARBINARY(255) NOT NULL,                -- whose set it is, UTF-8
    epoch VARBINARY(255) NOT NULL,              -- of its spool
    number BIGINT NOT NULL,                     -- of the set there
    firstindex BIGINT NOT NULL,                 -- elements of the set before this piece
    whole BIGINT NOT NULL,                      -- id of the last piece; 0: that has not come
    header MEDIUMTEXT NOT NULL,                 -- JSON
    notices LONGTEXT NOT NULL,                  -- JSON
    time BIGINT NOT NULL,                       -- when it was held
    UNIQUE INDEX heldsets_piece (uns, epoch, number, firstindex),
    INDEX heldsets_pid (pid, whole)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What else the source has of a provider, until it is here.
CREATE TABLE IF NOT EXISTS staged (
    pid INT NOT NULL,
    kind VARCHAR(16) NOT NULL,                  -- the table there; cursor: how far it is copied
    rowkey VARBINARY(20) NOT NULL,              -- of the row; of errors the number, in order
    rowtext LONGTEXT NOT NULL,                  -- all columns, JSON
    PRIMARY KEY (pid, kind, rowkey)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Rows of lccurl and qdb of the source, until they are here: all columns as there, and some more.  0 or an empty text
-- is NULL in columns where most rows have it (lcc.storage.queue.moves.paged).
CREATE TABLE IF NOT EXISTS stagedcache (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    pid INT NOT NULL,
    state SMALLINT NOT NULL,
    change_number BIGINT NOT NULL,
    change_time BIGINT,
    connseq BIGINT,
    seen BIGINT,
    generation BIGINT,
    source SMALLINT NOT NULL,
    words VARCHAR(96),
    curl MEDIUMTEXT NOT NULL,
    furl MEDIUMTEXT,
    burl MEDIUMTEXT,
    mimetype MEDIUMTEXT NOT NULL,
    subtype MEDIUMTEXT,
    hours MEDIUMTEXT,
    told_md5 VARCHAR(32),
    told_len BIGINT,
    told_mtime BIGINT,
    md5 VARCHAR(32),
    len BIGINT,
    mtime BIGINT,
    status INT NOT NULL,
    charset VARCHAR(255),
    etag MEDIUMTEXT,
    modified BIGINT,
    revalidate INT NOT NULL,
    headers MEDIUMTEXT,
    fetched_time BIGINT,
    fetched_machineid INT,
    fetched_fileid BIGINT,
    fetched_url MEDIUMTEXT,
    moved_url MEDIUMTEXT,
    confirmed_time BIGINT,
    origin_subid INT,                           -- where it was imported from (origins); NULL: it was not, or has changed since
    origin_number BIGINT,
    carried BINARY(20)                          -- key of the row of lccurl that has its content here; NULL: it has none
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS stagedqueue (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    pid INT NOT NULL,
    psetid BIGINT NOT NULL,
    slot INT NOT NULL,
    seq BIGINT NOT NULL,
    operation SMALLINT NOT NULL,
    generation BIGINT NOT NULL,
    connseq BIGINT NOT NULL,
    attempts INT,
    unreached INT,
    seen BIGINT,
    source SMALLINT NOT NULL,
    words VARCHAR(96),
    curl MEDIUMTEXT NOT NULL,
    furl MEDIUMTEXT,
    burl MEDIUMTEXT,
    mimetype MEDIUMTEXT NOT NULL,
    subtype MEDIUMTEXT,
    md5 VARCHAR(32),
    len BIGINT,
    mtime BIGINT,
    hours MEDIUMTEXT NOT NULL,
    ifabsent SMALLINT,
    sent MEDIUMTEXT NOT NULL,
    bad_code INT,
    bad_text VARCHAR(255),
    bad_time BIGINT,
    set_connseq BIGINT,                         -- of its set there (qpsdb); NULL: not known
    set_fullset SMALLINT,
    set_time BIGINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Where imported rows of the cache have last changed.
CREATE TABLE IF NOT EXISTS origins (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    change_number BIGINT NOT NULL,              -- that the row got here; another one now: it has changed since
    subid INT NOT NULL,                         -- the sub-LCC
    number BIGINT NOT NULL,                     -- its change number there
    INDEX origins_change (change_number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Providers that have moved from here, or to here.
CREATE TABLE IF NOT EXISTS flips (
    flip BIGINT NOT NULL PRIMARY KEY,           -- the version of the map (moves.flip of the front end)
    pid INT NOT NULL,
    subid INT NOT NULL,                         -- the other sub-LCC
    arrived SMALLINT NOT NULL,                  -- 1: it came here; 0: it left
    epoch BIGINT NOT NULL,                      -- of the provider
    time BIGINT NOT NULL,                       -- when it was noted
    INDEX flips_pid (pid, flip)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
-- Roots of providers that have moved from here, and are not back: what lies in them is watched where they are.
CREATE TABLE IF NOT EXISTS leftroots (
    pid INT NOT NULL,
    position INT NOT NULL,
    root MEDIUMTEXT NOT NULL,
    watched SMALLINT NOT NULL,                     -- 1: the provider is a watched one
    PRIMARY KEY (pid, position),
    INDEX leftroots_root (root(255))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT IGNORE INTO counters (name, value) VALUES ('held', 0), ('followed', 0), ('touched', 0);
