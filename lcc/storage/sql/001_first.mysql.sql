-- The tables of the LCC on MySQL and MariaDB.  001_first.sqlite.sql has the same tables and columns; a test compares them.
-- Times are seconds since 1970 (UTC); keys are those of lcc.model.KEY_BYTES; texts that may be absent are empty.

-- Registered providers.  Written by lcc-admin and the registration server, by nobody else.
CREATE TABLE IF NOT EXISTS pidb (
    pid INT NOT NULL PRIMARY KEY,               -- the provider's id; never used again
    password VARCHAR(255) NOT NULL,             -- hashed (lcc.storage.providers.passwords)
    filesmax BIGINT,                            -- quota of files; NULL: none
    spacemax BIGINT,                            -- quota of bytes; NULL: none
    fullsetsallowed BIGINT,                     -- unsolicited full sets a period; NULL: any number
    bandwidth BIGINT,                           -- bytes per second; NULL: without limit
    timeofday MEDIUMTEXT NOT NULL,              -- when fetching is allowed, as text; empty: always
    timezone VARCHAR(255) NOT NULL,             -- IANA name for timeofday; empty: the LCC's own
    priority SMALLINT NOT NULL,                 -- 0, 1 or 2; higher is fetched first
    allow_private SMALLINT NOT NULL,            -- 1: fetching from private addresses is allowed
    insecure SMALLINT NOT NULL,                 -- 1: TLS certificates are not verified
    removed SMALLINT NOT NULL,                  -- 1: being removed
    contact VARCHAR(255) NOT NULL DEFAULT ''    -- mail address of who answers for it; empty: not known
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The URL prefixes of a provider.
CREATE TABLE IF NOT EXISTS proots (
    pid INT NOT NULL,
    position INT NOT NULL,                      -- order in which they were given
    root MEDIUMTEXT NOT NULL,                   -- normalised
    PRIMARY KEY (pid, position)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What the queue manager knows and counts for a provider.  Written by the queue manager only.
CREATE TABLE IF NOT EXISTS pstats (
    pid INT NOT NULL PRIMARY KEY,
    files_used BIGINT NOT NULL DEFAULT 0,       -- rows of lccurl with content
    space_used BIGINT NOT NULL DEFAULT 0,       -- their bytes
    nurlproc BIGINT NOT NULL DEFAULT 0,         -- rows of qdb that are to be fetched
    errseq BIGINT NOT NULL DEFAULT 0,           -- errors ever counted: the number of the last one
    errcleared BIGINT NOT NULL DEFAULT 0,       -- errors up to this number are done with
    maxconnseq BIGINT NOT NULL DEFAULT 0,       -- the highest order number of a set that was absorbed
    fullconnseq BIGINT NOT NULL DEFAULT 0,      -- the highest order number of a full set that was absorbed
    fullsets_used BIGINT NOT NULL DEFAULT 0,    -- unsolicited full sets in this period
    fullsets_since BIGINT NOT NULL DEFAULT 0,   -- when the period began
    wantfullset VARCHAR(64) NOT NULL DEFAULT '',-- why a full set is wanted; empty: it is not
    wantid BIGINT NOT NULL DEFAULT 0,           -- names the request for a full set (random); 0: there was none
    last_full_time BIGINT NOT NULL DEFAULT 0,   -- when the last full set was accepted
    files_pending BIGINT NOT NULL DEFAULT 0,    -- rows of qdb that are to be fetched and have no content yet
    space_pending BIGINT NOT NULL DEFAULT 0,    -- the bytes told of those
    last_set_time BIGINT NOT NULL DEFAULT 0     -- when the last set was accepted
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Errors of fetches, kept for the provider.
CREATE TABLE IF NOT EXISTS urlerrs (
    pid INT NOT NULL,
    number BIGINT NOT NULL,                     -- counts the provider's errors, from 1
    code INT NOT NULL,                          -- lcc.errors
    message MEDIUMTEXT NOT NULL,
    url MEDIUMTEXT NOT NULL,                    -- the fetch URL
    sent MEDIUMTEXT NOT NULL,                   -- the element's attributes as sent, a JSON list
    time BIGINT NOT NULL,
    urlkey BINARY(20) NOT NULL DEFAULT '',      -- of the URL; empty: not known
    connseq BIGINT NOT NULL DEFAULT 0,          -- order number of the set that told it
    generation BIGINT NOT NULL DEFAULT 0,       -- of the queue row that failed; content that came later has a greater one
    notice MEDIUMTEXT,                          -- all that was told, JSON (lcc.storage.database.tables.stored_notices);
                                                -- NULL: not known
    PRIMARY KEY (pid, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The queue: one row for each URL that waits to be fetched.
CREATE TABLE IF NOT EXISTS qdb (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    pid INT NOT NULL,
    psetid BIGINT NOT NULL,                     -- its set, in the order of the sets
    slot INT NOT NULL,                          -- time slot; -1: any time; below: tried again later (lcc.model.retry_time)
    seq BIGINT NOT NULL,                        -- its place in the set
    operation SMALLINT NOT NULL,                -- 1: fetch; 0: nothing (deleted since)
    generation BIGINT NOT NULL,                 -- grows with each change of the row
    connseq BIGINT NOT NULL,                    -- order number of its last operation
    attempts INT NOT NULL,                      -- fetches that have failed since it was told, by an error of the URL
    unreached INT NOT NULL,                     -- fetches that have not reached its site since then
    seen BIGINT NOT NULL,                       -- psetid of the last full set that named it
    curl MEDIUMTEXT NOT NULL,                   -- conceptual URL
    furl MEDIUMTEXT NOT NULL,                   -- fetch URL; empty: curl
    burl MEDIUMTEXT NOT NULL,                   -- browse URL; empty: curl; '-': none
    mimetype MEDIUMTEXT NOT NULL,
    subtype MEDIUMTEXT NOT NULL,
    md5 VARCHAR(32) NOT NULL,                   -- told, hexadecimal; empty: not told
    len BIGINT,                                 -- told, bytes
    mtime BIGINT,                               -- told
    hours MEDIUMTEXT NOT NULL,                  -- as sent
    ifabsent SMALLINT NOT NULL,
    sent MEDIUMTEXT NOT NULL,                   -- the element's attributes as sent, a JSON list
    bad_code INT NOT NULL DEFAULT 0,            -- the last error that let it be tried again; 0: there was none
    bad_text VARCHAR(255) NOT NULL DEFAULT '',  -- what exactly happened
    bad_time BIGINT NOT NULL DEFAULT 0,         -- and when
    INDEX qdb_order (pid, slot, psetid, seq)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The sets that have rows in the queue.  Can be rebuilt from qdb alone.
CREATE TABLE IF NOT EXISTS qpsdb (
    psetid BIGINT NOT NULL,
    slot INT NOT NULL,
    pid INT NOT NULL,
    pri SMALLINT NOT NULL,                      -- the provider's priority when the set came
    connseq BIGINT NOT NULL,
    fullset SMALLINT NOT NULL,                  -- 1: a full set
    firstseq BIGINT NOT NULL,                   -- no row of it comes before this place
    lastseq BIGINT NOT NULL,                    -- nor behind this one
    nurls BIGINT NOT NULL,                      -- rows left
    time BIGINT NOT NULL,                       -- when it came
    PRIMARY KEY (psetid, slot),
    INDEX qpsdb_provider (pid, slot, psetid),
    INDEX qpsdb_slot (slot, psetid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Providers that must wait; pid 0: the whole site.
CREATE TABLE IF NOT EXISTS pdelays (
    pid INT NOT NULL PRIMARY KEY,
    until_time DOUBLE NOT NULL,                 -- 0: it does not wait now, but its failures are remembered
    reason VARCHAR(16) NOT NULL,                -- bandwidth, hours, site-error
    code INT NOT NULL,                          -- the error, for site-error
    failures INT NOT NULL,                      -- errors of its site in a row
    owed_time DOUBLE NOT NULL,                  -- when what was fetched is paid for; 0: it is
    rate BIGINT NOT NULL,                       -- bytes per second, that owed_time was reckoned with
    since_time DOUBLE NOT NULL                  -- of the first of its failures; 0: there is none
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Time slots that began up to this time are opened.  One row.
CREATE TABLE IF NOT EXISTS slotsopened (
    id INT NOT NULL PRIMARY KEY,
    upto DOUBLE NOT NULL,
    period VARCHAR(255) NOT NULL                -- slots/seconds/time zone: what the numbers of slots mean
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The cache: what is kept, and what went away (tombstones).
CREATE TABLE IF NOT EXISTS lccurl (
    urlkey BINARY(20) NOT NULL PRIMARY KEY,
    pid INT NOT NULL,
    state SMALLINT NOT NULL,                    -- 1: cached; 0: deleted
    change_number BIGINT NOT NULL,              -- of its last change; 0: never was in the cache
    connseq BIGINT NOT NULL,                    -- order number of its last operation
    seen BIGINT NOT NULL,                       -- psetid of the last full set that named it
    generation BIGINT NOT NULL,                 -- of the queue row whose content came last; older content is not taken
    source SMALLINT NOT NULL,                   -- who named it; 1: the provider told it
    curl MEDIUMTEXT NOT NULL,
    furl MEDIUMTEXT NOT NULL,
    burl MEDIUMTEXT NOT NULL,
    mimetype MEDIUMTEXT NOT NULL,
    subtype MEDIUMTEXT NOT NULL,
    hours MEDIUMTEXT NOT NULL,                  -- as told with the content
    told_md5 VARCHAR(32) NOT NULL,              -- as the provider told last
    told_len BIGINT,
    told_mtime BIGINT,
    md5 VARCHAR(32) NOT NULL,                   -- of the content
    len BIGINT,
    mtime BIGINT,                               -- Last-Modified, else as told
    status INT NOT NULL,                        -- of the fetch
    charset VARCHAR(255) NOT NULL,
    etag MEDIUMTEXT NOT NULL,
    modified BIGINT,                            -- Last-Modified; NULL: the server said nothing usable
    revalidate INT NOT NULL,                    -- 1: etag and modified tell whether it has changed; 0: they do not
    headers MEDIUMTEXT NOT NULL,                -- response headers, a JSON list
    fetched_time BIGINT,
    fetched_machineid INT,                      -- where the content is; NULL: it was lost, and is being fetched again
    fetched_fileid BIGINT,
    confirmed_time BIGINT,                      -- fetched, found unchanged, or (a tombstone) deleted
    INDEX lccurl_change (change_number),
    INDEX lccurl_file (fetched_machineid, fetched_fileid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Files to be removed, per machine.
CREATE TABLE IF NOT EXISTS fsmdb (
    id BIGINT NOT NULL PRIMARY KEY,
    machine INT NOT NULL,
    file BIGINT NOT NULL,
    not_before BIGINT NOT NULL DEFAULT 0,       -- when: readers get time to finish; grows with the id
    INDEX fsmdb_machine (machine, id),
    INDEX fsmdb_file (machine, file)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Content files that are missing or damaged, as lcc-admin fsck found them: an order has them fetched again.
CREATE TABLE IF NOT EXISTS damaged (
    machine INT NOT NULL,
    file BIGINT NOT NULL,
    PRIMARY KEY (machine, file)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How far the sets of each UNS are applied.
CREATE TABLE IF NOT EXISTS setspos (
    uns VARBINARY(255) NOT NULL,                -- the UNS's name, UTF-8
    epoch VARBINARY(255) NOT NULL,              -- of its spool
    last_number BIGINT NOT NULL DEFAULT 0,      -- sets up to here are applied completely
    answered_number BIGINT NOT NULL DEFAULT 0,  -- sets up to here were answered, refused ones as well
    part_number BIGINT NOT NULL DEFAULT 0,      -- the set being absorbed; 0: none
    part_psetid BIGINT NOT NULL DEFAULT 0,      -- the psetid it was given
    part_done BIGINT NOT NULL DEFAULT 0,        -- elements of it that are absorbed
    PRIMARY KEY (uns, epoch)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The machines whose BOT-Ms have connected.
CREATE TABLE IF NOT EXISTS machines (
    machine INT NOT NULL PRIMARY KEY,
    last_seen BIGINT NOT NULL,                  -- when its BOT-M last said hello, or its lease was changed
    lease_until BIGINT NOT NULL,                -- its orders may be running up to then; 0: it has none
    names_upto BIGINT NOT NULL                  -- file ids below this one were given out there
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Counters of the queue manager.
CREATE TABLE IF NOT EXISTS counters (
    name VARCHAR(64) NOT NULL PRIMARY KEY,      -- change, psetid, file_order, batch, behind, qm_run, forgotten, queued, fence
    value BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT IGNORE INTO counters (name, value) VALUES ('change', 0), ('psetid', 0), ('file_order', 0), ('batch', 0), ('behind', 0),
    ('qm_run', 0), ('forgotten', 0), ('queued', 0), ('fence', 0);

-- What lcc-admin orders from the queue manager.
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT NOT NULL PRIMARY KEY,
    kind VARCHAR(64) NOT NULL,                  -- provider-changed, provider-removed, retry, rebuild,
                                                -- want-full-set, fetch-again
    pid INT NOT NULL,                           -- 0: all
    code INT NOT NULL DEFAULT 0,                -- retry: only what failed with this error; 0: all
    text VARCHAR(255) NOT NULL DEFAULT '',      -- want-full-set: why
    progress VARBINARY(1024) NOT NULL DEFAULT '' -- where the queue manager goes on with it
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What the queue manager does page by page in the background (lcc.storage.queue.maintenance.housekeeping).
CREATE TABLE IF NOT EXISTS chores (
    name VARCHAR(64) NOT NULL PRIMARY KEY,      -- lcc.storage.queue.maintenance.housekeeping.CHORES
    due BIGINT NOT NULL,                        -- when it goes on, or begins anew
    progress VARBINARY(1024) NOT NULL           -- where it goes on; empty: at its start
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Content users that may connect from elsewhere; written by lcc-admin.
CREATE TABLE IF NOT EXISTS cudb (
    cuid INT NOT NULL PRIMARY KEY,
    name VARCHAR(255) NOT NULL,                 -- for people
    secret VARCHAR(255) NOT NULL,               -- of the token, hashed
    providers MEDIUMTEXT NOT NULL,              -- ids of the providers that it may see, a JSON list; empty: all
    content SMALLINT NOT NULL,                  -- 1: rows and content; 0: rows only
    created BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Registrations that are under way, and for a while those that are done.  Written by lcc-admin and the registration server.
CREATE TABLE IF NOT EXISTS registrations (
    number INT NOT NULL PRIMARY KEY,            -- never used again
    kind VARCHAR(16) NOT NULL,                  -- provider, root or password (lcc.model.Proves)
    state VARCHAR(16) NOT NULL,                 -- asked, proven (waits for the operator) or done
    ticket VARCHAR(255) NOT NULL,               -- what who asked shows to go on; hashed
    secret VARCHAR(255) NOT NULL,               -- what the file has to hold; hashed
    password VARCHAR(255) NOT NULL,             -- of the provider, from the proof on; hashed; empty: it stays
    file VARCHAR(255) NOT NULL,                 -- name of the file
    folders MEDIUMTEXT NOT NULL,                -- URLs of the folders where it has to be, a JSON list
    pid INT NOT NULL,                           -- of the provider; 0: there is none yet
    contact VARCHAR(255) NOT NULL,              -- mail address of who asked
    bandwidth BIGINT,                           -- wished, as in pidb
    timeofday MEDIUMTEXT NOT NULL,              -- wished, as in pidb
    timezone VARCHAR(255) NOT NULL,             -- wished, as in pidb
    priority SMALLINT NOT NULL,                 -- wished, as in pidb
    private SMALLINT NOT NULL,                  -- 1: the proof was on a private address
    created BIGINT NOT NULL,                    -- when it was asked for
    expires BIGINT NOT NULL,                    -- when it is forgotten
    INDEX registrations_expires (expires)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Who may log in at the web monitor; written by lcc-admin.
CREATE TABLE IF NOT EXISTS webusers (
    name VARCHAR(100) NOT NULL PRIMARY KEY,
    password VARCHAR(255) NOT NULL,             -- hashed (lcc.storage.providers.passwords)
    operates SMALLINT NOT NULL,                 -- 1: may have things done (try again); 0: looks on
    created BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What the queue manager says of itself every few seconds (lcc.roles.qm.maintenance.state).  One row.
CREATE TABLE IF NOT EXISTS qmstate (
    id INT NOT NULL PRIMARY KEY,                -- 1
    state MEDIUMTEXT NOT NULL                   -- JSON
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Order numbers (lcc.storage.providers.sessions): a UNS writes this (on SQLite in a file of its own).
CREATE TABLE IF NOT EXISTS connections (
    pid INT NOT NULL PRIMARY KEY,
    lastconnseq BIGINT NOT NULL,                -- the last order number drawn
    lastconnip VARCHAR(64) NOT NULL,            -- where the last one came from
    lastconntime BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
