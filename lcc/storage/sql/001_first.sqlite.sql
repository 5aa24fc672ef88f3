-- The tables of the LCC on SQLite.  001_first.mysql.sql has the same tables and columns; a test compares them.
-- Times are seconds since 1970 (UTC); keys are those of lcc.model.KEY_BYTES; texts that may be absent are empty.

-- Registered providers.  Written by lcc-admin and the registration server, by nobody else.
CREATE TABLE pidb (
    pid INTEGER NOT NULL PRIMARY KEY,           -- the provider's id; never used again
    password TEXT NOT NULL,                     -- hashed (lcc.storage.providers.passwords)
    filesmax INTEGER,                           -- quota of files; NULL: none
    spacemax INTEGER,                           -- quota of bytes; NULL: none
    fullsetsallowed INTEGER,                    -- unsolicited full sets a period; NULL: any number
    bandwidth INTEGER,                          -- bytes per second; NULL: without limit
    timeofday TEXT NOT NULL,                    -- when fetching is allowed, as text; empty: always
    timezone TEXT NOT NULL,                     -- IANA name for timeofday; empty: the LCC's own
    priority INTEGER NOT NULL,                  -- 0, 1 or 2; higher is fetched first
    allow_private INTEGER NOT NULL,             -- 1: fetching from private addresses is allowed
    insecure INTEGER NOT NULL,                  -- 1: TLS certificates are not verified
    removed INTEGER NOT NULL,                   -- 1: being removed
    contact TEXT NOT NULL DEFAULT ''            -- mail address of who answers for it; empty: not known
);

-- The URL prefixes of a provider.
CREATE TABLE proots (
    pid INTEGER NOT NULL,
    position INTEGER NOT NULL,                  -- order in which they were given
    root TEXT NOT NULL,                         -- normalised
    PRIMARY KEY (pid, position)
) WITHOUT ROWID;

-- What the queue manager knows and counts for a provider.  Written by the queue manager only.
CREATE TABLE pstats (
    pid INTEGER NOT NULL PRIMARY KEY,
    files_used INTEGER NOT NULL DEFAULT 0,      -- rows of lccurl with content
    space_used INTEGER NOT NULL DEFAULT 0,      -- their bytes
    nurlproc INTEGER NOT NULL DEFAULT 0,        -- rows of qdb that are to be fetched
    errseq INTEGER NOT NULL DEFAULT 0,          -- errors ever counted: the number of the last one
    errcleared INTEGER NOT NULL DEFAULT 0,      -- errors up to this number are done with
    maxconnseq INTEGER NOT NULL DEFAULT 0,      -- the highest order number of a set that was absorbed
    fullconnseq INTEGER NOT NULL DEFAULT 0,     -- the highest order number of a full set that was absorbed
    fullsets_used INTEGER NOT NULL DEFAULT 0,   -- unsolicited full sets in this period
    fullsets_since INTEGER NOT NULL DEFAULT 0,  -- when the period began
    wantfullset TEXT NOT NULL DEFAULT '',       -- why a full set is wanted; empty: it is not
    wantid INTEGER NOT NULL DEFAULT 0,          -- names the request for a full set (random); 0: there was none
    last_full_time INTEGER NOT NULL DEFAULT 0,  -- when the last full set was accepted
    files_pending INTEGER NOT NULL DEFAULT 0,   -- rows of qdb that are to be fetched and have no content yet
    space_pending INTEGER NOT NULL DEFAULT 0,   -- the bytes told of those
    last_set_time INTEGER NOT NULL DEFAULT 0    -- when the last set was accepted
);

-- Errors of fetches, kept for the provider.
CREATE TABLE urlerrs (
    pid INTEGER NOT NULL,
    number INTEGER NOT NULL,                    -- counts the provider's errors, from 1
    code INTEGER NOT NULL,                      -- lcc.errors
    message TEXT NOT NULL,
    url TEXT NOT NULL,                          -- the fetch URL
    sent TEXT NOT NULL,                         -- the element's attributes as sent, a JSON list
    time INTEGER NOT NULL,
    urlkey BLOB NOT NULL DEFAULT x'',           -- of the URL; empty: not known
    connseq INTEGER NOT NULL DEFAULT 0,         -- order number of the set that told it
    generation INTEGER NOT NULL DEFAULT 0,      -- of the queue row that failed; content that came later has a greater one
    notice TEXT,                                -- all that was told, JSON (lcc.storage.database.tables.stored_notices);
                                                -- NULL: not known
    PRIMARY KEY (pid, number)
) WITHOUT ROWID;

-- The queue: one row for each URL that waits to be fetched.
CREATE TABLE qdb (
    urlkey BLOB NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    psetid INTEGER NOT NULL,                    -- its set, in the order of the sets
    slot INTEGER NOT NULL,                      -- time slot; -1: any time; below: tried again later (lcc.model.retry_time)
    seq INTEGER NOT NULL,                       -- its place in the set
    operation INTEGER NOT NULL,                 -- 1: fetch; 0: nothing (deleted since)
    generation INTEGER NOT NULL,                -- grows with each change of the row
    connseq INTEGER NOT NULL,                   -- order number of its last operation
    attempts INTEGER NOT NULL,                  -- fetches that have failed since it was told, by an error of the URL
    unreached INTEGER NOT NULL,                 -- fetches that have not reached its site since then
    seen INTEGER NOT NULL,                      -- psetid of the last full set that named it
    curl TEXT NOT NULL,                         -- conceptual URL
    furl TEXT NOT NULL,                         -- fetch URL; empty: curl
    burl TEXT NOT NULL,                         -- browse URL; empty: curl; '-': none
    mimetype TEXT NOT NULL,
    subtype TEXT NOT NULL,
    md5 TEXT NOT NULL,                          -- told, hexadecimal; empty: not told
    len INTEGER,                                -- told, bytes
    mtime INTEGER,                              -- told
    hours TEXT NOT NULL,                        -- as sent
    ifabsent INTEGER NOT NULL,
    sent TEXT NOT NULL,                         -- the element's attributes as sent, a JSON list
    bad_code INTEGER NOT NULL DEFAULT 0,        -- the last error that let it be tried again; 0: there was none
    bad_text TEXT NOT NULL DEFAULT '',          -- what exactly happened
    bad_time INTEGER NOT NULL DEFAULT 0         -- and when
);
CREATE INDEX qdb_order ON qdb (pid, slot, psetid, seq);

-- The sets that have rows in the queue.  Can be rebuilt from qdb alone.
CREATE TABLE qpsdb (
    psetid INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    pri INTEGER NOT NULL,                       -- the provider's priority when the set came
    connseq INTEGER NOT NULL,
    fullset INTEGER NOT NULL,                   -- 1: a full set
    firstseq INTEGER NOT NULL,                  -- no row of it comes before this place
    lastseq INTEGER NOT NULL,                   -- nor behind this one
    nurls INTEGER NOT NULL,                     -- rows left
    time INTEGER NOT NULL,                      -- when it came
    PRIMARY KEY (psetid, slot)
) WITHOUT ROWID;
CREATE INDEX qpsdb_provider ON qpsdb (pid, slot, psetid);
CREATE INDEX qpsdb_slot ON qpsdb (slot, psetid);

-- Providers that must wait; pid 0: the whole site.
CREATE TABLE pdelays (
    pid INTEGER NOT NULL PRIMARY KEY,
    until_time DOUBLE NOT NULL,                 -- 0: it does not wait now, but its failures are remembered
    reason TEXT NOT NULL,                       -- bandwidth, hours, site-error
    code INTEGER NOT NULL,                      -- the error, for site-error
    failures INTEGER NOT NULL,                  -- errors of its site in a row
    owed_time DOUBLE NOT NULL,                  -- when what was fetched is paid for; 0: it is
    rate INTEGER NOT NULL,                      -- bytes per second, that owed_time was reckoned with
    since_time DOUBLE NOT NULL                  -- of the first of its failures; 0: there is none
);

-- Time slots that began up to this time are opened.  One row.
CREATE TABLE slotsopened (
    id INTEGER NOT NULL PRIMARY KEY,
    upto DOUBLE NOT NULL,
    period TEXT NOT NULL                        -- slots/seconds/time zone: what the numbers of slots mean
);

-- The cache: what is kept, and what went away (tombstones).
CREATE TABLE lccurl (
    urlkey BLOB NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    state INTEGER NOT NULL,                     -- 1: cached; 0: deleted
    change_number INTEGER NOT NULL,             -- of its last change; 0: never was in the cache
    connseq INTEGER NOT NULL,                   -- order number of its last operation
    seen INTEGER NOT NULL,                      -- psetid of the last full set that named it
    generation INTEGER NOT NULL,                -- of the queue row whose content came last; older content is not taken
    source INTEGER NOT NULL,                    -- who named it; 1: the provider told it
    curl TEXT NOT NULL,
    furl TEXT NOT NULL,
    burl TEXT NOT NULL,
    mimetype TEXT NOT NULL,
    subtype TEXT NOT NULL,
    hours TEXT NOT NULL,                        -- as told with the content
    told_md5 TEXT NOT NULL,                     -- as the provider told last
    told_len INTEGER,
    told_mtime INTEGER,
    md5 TEXT NOT NULL,                          -- of the content
    len INTEGER,
    mtime INTEGER,                              -- Last-Modified, else as told
    status INTEGER NOT NULL,                    -- of the fetch
    charset TEXT NOT NULL,
    etag TEXT NOT NULL,
    modified INTEGER,                           -- Last-Modified; NULL: the server said nothing usable
    revalidate INTEGER NOT NULL,                -- 1: etag and modified tell whether it has changed; 0: they do not
    headers TEXT NOT NULL,                      -- response headers, a JSON list
    fetched_time INTEGER,
    fetched_machineid INTEGER,                  -- where the content is; NULL: it was lost, and is being fetched again
    fetched_fileid INTEGER,
    confirmed_time INTEGER                      -- fetched, found unchanged, or (a tombstone) deleted
);
CREATE INDEX lccurl_change ON lccurl (change_number);
CREATE INDEX lccurl_file ON lccurl (fetched_machineid, fetched_fileid);

-- Files to be removed, per machine.
CREATE TABLE fsmdb (
    id INTEGER NOT NULL PRIMARY KEY,
    machine INTEGER NOT NULL,
    file INTEGER NOT NULL,
    not_before INTEGER NOT NULL DEFAULT 0       -- when: readers get time to finish; grows with the id
);
CREATE INDEX fsmdb_machine ON fsmdb (machine, id);
CREATE INDEX fsmdb_file ON fsmdb (machine, file);

-- Content files that are missing or damaged, as lcc-admin fsck found them: an order has them fetched again.
CREATE TABLE damaged (
    machine INTEGER NOT NULL,
    file INTEGER NOT NULL,
    PRIMARY KEY (machine, file)
) WITHOUT ROWID;

-- How far the sets of each UNS are applied.
CREATE TABLE setspos (
    uns BLOB NOT NULL,                          -- the UNS's name, UTF-8
    epoch BLOB NOT NULL,                        -- of its spool
    last_number INTEGER NOT NULL DEFAULT 0,     -- sets up to here are applied completely
    answered_number INTEGER NOT NULL DEFAULT 0, -- sets up to here were answered, refused ones as well
    part_number INTEGER NOT NULL DEFAULT 0,     -- the set being absorbed; 0: none
    part_psetid INTEGER NOT NULL DEFAULT 0,     -- the psetid it was given
    part_done INTEGER NOT NULL DEFAULT 0,       -- elements of it that are absorbed
    PRIMARY KEY (uns, epoch)
) WITHOUT ROWID;

-- The machines whose BOT-Ms have connected.
CREATE TABLE machines (
    machine INTEGER NOT NULL PRIMARY KEY,
    last_seen INTEGER NOT NULL,                 -- when its BOT-M last said hello, or its lease was changed
    lease_until INTEGER NOT NULL,               -- its orders may be running up to then; 0: it has none
    names_upto INTEGER NOT NULL                 -- file ids below this one were given out there
);

-- Counters of the queue manager.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,             -- change, psetid, file_order, batch, behind, qm_run, forgotten, queued, fence
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('change', 0), ('psetid', 0), ('file_order', 0), ('batch', 0), ('behind', 0),
    ('qm_run', 0), ('forgotten', 0), ('queued', 0), ('fence', 0);

-- What lcc-admin orders from the queue manager.
CREATE TABLE orders (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,                         -- provider-changed, provider-removed, retry, rebuild,
                                                -- want-full-set, fetch-again
    pid INTEGER NOT NULL,                       -- 0: all
    code INTEGER NOT NULL DEFAULT 0,            -- retry: only what failed with this error; 0: all
    text TEXT NOT NULL DEFAULT '',              -- want-full-set: why
    progress BLOB NOT NULL DEFAULT x''          -- where the queue manager goes on with it
);

-- What the queue manager does page by page in the background (lcc.storage.queue.maintenance.housekeeping).
CREATE TABLE chores (
    name TEXT NOT NULL PRIMARY KEY,             -- lcc.storage.queue.maintenance.housekeeping.CHORES
    due INTEGER NOT NULL,                       -- when it goes on, or begins anew
    progress BLOB NOT NULL                      -- where it goes on; empty: at its start
);

-- Content users that may connect from elsewhere; written by lcc-admin.
CREATE TABLE cudb (
    cuid INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,                         -- for people
    secret TEXT NOT NULL,                       -- of the token, hashed
    providers TEXT NOT NULL,                    -- ids of the providers that it may see, a JSON list; empty: all
    content INTEGER NOT NULL,                   -- 1: rows and content; 0: rows only
    created INTEGER NOT NULL
);

-- Registrations that are under way, and for a while those that are done.  Written by lcc-admin and the registration server.
CREATE TABLE registrations (
    number INTEGER NOT NULL PRIMARY KEY,        -- never used again
    kind TEXT NOT NULL,                         -- provider, root or password (lcc.model.Proves)
    state TEXT NOT NULL,                        -- asked, proven (waits for the operator) or done
    ticket TEXT NOT NULL,                       -- what who asked shows to go on; hashed
    secret TEXT NOT NULL,                       -- what the file has to hold; hashed
    password TEXT NOT NULL,                     -- of the provider, from the proof on; hashed; empty: it stays
    file TEXT NOT NULL,                         -- name of the file
    folders TEXT NOT NULL,                      -- URLs of the folders where it has to be, a JSON list
    pid INTEGER NOT NULL,                       -- of the provider; 0: there is none yet
    contact TEXT NOT NULL,                      -- mail address of who asked
    bandwidth INTEGER,                          -- wished, as in pidb
    timeofday TEXT NOT NULL,                    -- wished, as in pidb
    timezone TEXT NOT NULL,                     -- wished, as in pidb
    priority INTEGER NOT NULL,                  -- wished, as in pidb
    private INTEGER NOT NULL,                   -- 1: the proof was on a private address
    created INTEGER NOT NULL,                   -- when it was asked for
    expires INTEGER NOT NULL                    -- when it is forgotten
);
CREATE INDEX registrations_expires ON registrations (expires);

-- Who may log in at the web monitor; written by lcc-admin.
CREATE TABLE webusers (
    name TEXT NOT NULL PRIMARY KEY,
    password TEXT NOT NULL,                     -- hashed (lcc.storage.providers.passwords)
    operates INTEGER NOT NULL,                  -- 1: may have things done (try again); 0: looks on
    created INTEGER NOT NULL
) WITHOUT ROWID;

-- What the queue manager says of itself every few seconds (lcc.roles.qm.maintenance.state).  One row.
CREATE TABLE qmstate (
    id INTEGER NOT NULL PRIMARY KEY,            -- 1
    state TEXT NOT NULL                         -- JSON
);
