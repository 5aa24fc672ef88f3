-- The front end's database (lcc.storage.fe): several sub-LCCs behind one address (seed 002, section 12).
-- Times are seconds since 1970 (UTC).  Its parts are FEDB (fedb, fevitals), PMDB (pmdb), moves (moves, fences), registrations and
-- content users of the whole; written by lcc-admin fe, by the front end's roles, and each row of fevitals by its sub-LCC.

-- FEDB: the sub-LCCs, and how to reach them.
CREATE TABLE fedb (
    subid INTEGER NOT NULL PRIMARY KEY,         -- never used again: tokens of content users name it
    name TEXT NOT NULL UNIQUE,                  -- for operators, and in the sub-LCC's own fe.name
    state TEXT NOT NULL,                        -- open, draining, removed (lcc.model.frontend.places.SubState)
    uns TEXT NOT NULL,                          -- endpoints of its UNSes, with spaces in between
    proxyprotocol INTEGER NOT NULL,             -- 1: they are told providers' addresses by the PROXY protocol
    notifiers TEXT NOT NULL,                    -- endpoint of its port of notifiers; empty: none
    content TEXT NOT NULL,                      -- URL of the content port of its (central) BOT-M; empty: none
    dburl TEXT NOT NULL,                        -- URL of its database, with the password
    firstpid INTEGER NOT NULL,                  -- its range of provider ids
    lastpid INTEGER NOT NULL,                   -- the last one
    firstmachine INTEGER NOT NULL,              -- its range of machine ids
    lastmachine INTEGER NOT NULL,               -- the last one
    filesmax INTEGER,                           -- files that it has room for; NULL: nobody has said
    spacemax INTEGER,                           -- bytes that it has room for; NULL: nobody has said
    made_time INTEGER NOT NULL                  -- when it was added
);

-- FEDB: vital statistics.
CREATE TABLE fevitals (
    subid INTEGER NOT NULL PRIMARY KEY,         -- whose
    time INTEGER NOT NULL,                      -- of the report
    epoch TEXT NOT NULL,                        -- of its database
    providers INTEGER NOT NULL,                 -- registered or watched there
    files INTEGER NOT NULL,                     -- in its cache
    space_bytes INTEGER NOT NULL,               -- likewise
    queued INTEGER NOT NULL,                    -- URLs that wait to be fetched
    change_number INTEGER NOT NULL              -- of the last change of its cache
);

-- PMDB: providers that are not, or not only, known by the range that their id is of.
CREATE TABLE pmdb (
    pid INTEGER NOT NULL PRIMARY KEY,           -- the provider
    subid INTEGER NOT NULL,                     -- where it is
    epoch INTEGER NOT NULL,                     -- grows with each step of a move; the higher one is right
    state TEXT NOT NULL,                        -- here, making, frozen (lcc.model.frontend.places.AtHome)
    changed_time INTEGER NOT NULL               -- when state or place changed last
);
CREATE INDEX pmdb_sub ON pmdb (subid, pid);
CREATE INDEX pmdb_state ON pmdb (state, changed_time);

-- Moves of providers from one sub-LCC to another; a row stays, as the version of the map that tokens name.
CREATE TABLE moves (
    id INTEGER NOT NULL PRIMARY KEY,            -- drawn from a counter
    pid INTEGER NOT NULL,                       -- who moves
    source INTEGER NOT NULL,                    -- subid
    dest INTEGER NOT NULL,                      -- subid
    flip INTEGER NOT NULL,                      -- number of the flip, a version of the map; 0: it has not flipped
    state TEXT NOT NULL,                        -- planned, copying, freezing, flipped, active, done, cancelled
    epoch INTEGER NOT NULL,                     -- of the provider, at the last step
    made_time INTEGER NOT NULL,                 -- when it was ordered
    changed_time INTEGER NOT NULL,              -- of the last step
    progress TEXT NOT NULL,                     -- JSON: how far the step is
    why TEXT NOT NULL                           -- it does not go on, or was cancelled
);
CREATE INDEX moves_pid ON moves (pid, id);
CREATE INDEX moves_state ON moves (state, id);
CREATE INDEX moves_flip ON moves (flip);

-- Sites that are about to be watched: where, said by whoever asked first (lcc.storage.fe.sites).
CREATE TABLE sitehomes (
    site TEXT NOT NULL PRIMARY KEY,             -- a hash of its root, without http: or https:
    subid INTEGER NOT NULL,                     -- where it is watched
    made_time INTEGER NOT NULL                  -- when that was said; forgotten after an hour: by then it is
) WITHOUT ROWID;
CREATE INDEX sitehomes_time ON sitehomes (made_time);

-- What a sub-LCC is to obey for a provider that moves, and what it has obeyed.
CREATE TABLE fences (
    pid INTEGER NOT NULL,                       -- who moves
    subid INTEGER NOT NULL,                     -- who obeys
    epoch INTEGER NOT NULL,                     -- only a higher one changes the row
    state TEXT NOT NULL,                        -- open, followed, frozen, left (lcc.model.frontend.moves.Fence)
    obeyed_epoch INTEGER NOT NULL,              -- the sub-LCC is in that state since this epoch: drained, if frozen
    changed_time INTEGER NOT NULL,              -- when epoch or state changed last
    PRIMARY KEY (pid, subid)
) WITHOUT ROWID;
CREATE INDEX fences_sub ON fences (subid, epoch);

-- Registrations in progress, and content users of the whole, in tables like those of an LCC.
-- from 001_first: registrations, cudb
