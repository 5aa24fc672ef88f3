-- The front end's database (lcc.storage.fe): several sub-LCCs behind one address (seed 002, section 12).
-- Times are seconds since 1970 (UTC).  Its parts are FEDB (fedb, fevitals), PMDB (pmdb), moves (moves, fences), registrations and
-- content users of the whole; written by lcc-admin fe, by the front end's roles, and each row of fevitals by its sub-LCC.

-- FEDB: the sub-LCCs, and how to reach them.
CREATE TABLE IF NOT EXISTS fedb (
    subid INT NOT NULL PRIMARY KEY,             -- never used again: tokens of content users name it
    name VARCHAR(64) NOT NULL UNIQUE,           -- for operators, and in the sub-LCC's own fe.name
    state VARCHAR(16) NOT NULL,                 -- open, draining, removed (lcc.model.frontend.places.SubState)
    uns MEDIUMTEXT NOT NULL,                    -- endpoints of its UNSes, with spaces in between
    proxyprotocol SMALLINT NOT NULL,            -- 1: they are told providers' addresses by the PROXY protocol
    notifiers VARCHAR(255) NOT NULL,            -- endpoint of its port of notifiers; empty: none
    content VARCHAR(255) NOT NULL,              -- URL of the content port of its (central) BOT-M; empty: none
    dburl MEDIUMTEXT NOT NULL,                  -- URL of its database, with the password
    firstpid INT NOT NULL,                      -- its range of provider ids
    lastpid INT NOT NULL,                       -- the last one
    firstmachine INT NOT NULL,                  -- its range of machine ids
    lastmachine INT NOT NULL,                   -- the last one
    filesmax BIGINT,                            -- files that it has room for; NULL: nobody has said
    spacemax BIGINT,                            -- bytes that it has room for; NULL: nobody has said
    made_time BIGINT NOT NULL                   -- when it was added
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- FEDB: vital statistics.
CREATE TABLE IF NOT EXISTS fevitals (
    subid INT NOT NULL PRIMARY KEY,             -- whose
    time BIGINT NOT NULL,                       -- of the report
    epoch VARCHAR(64) NOT NULL,                 -- of its database
    providers BIGINT NOT NULL,                  -- registered or watched there
    files BIGINT NOT NULL,                      -- in its cache
    space_bytes BIGINT NOT NULL,                -- likewise
    queued BIGINT NOT NULL,                     -- URLs that wait to be fetched
    change_number BIGINT NOT NULL               -- of the last change of its cache
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- PMDB: providers that are not, or not only, known by the range that their id is of.
CREATE TABLE IF NOT EXISTS pmdb (
    pid INT NOT NULL PRIMARY KEY,               -- the provider
    subid INT NOT NULL,                         -- where it is
    epoch BIGINT NOT NULL,                      -- grows with each step of a move; the higher one is right
    state VARCHAR(16) NOT NULL,                 -- here, making, frozen (lcc.model.frontend.places.AtHome)
    changed_time BIGINT NOT NULL,               -- when state or place changed last
    INDEX pmdb_sub (subid, pid),
    INDEX pmdb_state (state, changed_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Moves of providers from one sub-LCC to another; a row stays, as the version of the map that tokens name.
CREATE TABLE IF NOT EXISTS moves (
    id BIGINT NOT NULL PRIMARY KEY,             -- drawn from a counter
    pid INT NOT NULL,                           -- who moves
    source INT NOT NULL,                        -- subid
    dest INT NOT NULL,                          -- subid
    flip BIGINT NOT NULL,                       -- number of the flip, a version of the map; 0: it has not flipped
    state VARCHAR(16) NOT NULL,                 -- planned, copying, freezing, flipped, active, done, cancelled
    epoch BIGINT NOT NULL,                      -- of the provider, at the last step
    made_time BIGINT NOT NULL,                  -- when it was ordered
    changed_time BIGINT NOT NULL,               -- of the last step
    progress MEDIUMTEXT NOT NULL,               -- JSON: how far the step is
    why MEDIUMTEXT NOT NULL,                    -- it does not go on, or was cancelled
    INDEX moves_pid (pid, id),
    INDEX moves_state (state, id),
    INDEX moves_flip (flip)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sites that are about to be watched: where, said by whoever asked first (lcc.storage.fe.sites).
CREATE TABLE IF NOT EXISTS sitehomes (
    site VARCHAR(64) NOT NULL PRIMARY KEY,      -- a hash of its root, without http: or https:
    subid INT NOT NULL,                         -- where it is watched
    made_time BIGINT NOT NULL,                  -- when that was said; forgotten after an hour: by then it is
    INDEX sitehomes_time (made_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What a sub-LCC is to obey for a provider that moves, and what it has obeyed.
CREATE TABLE IF NOT EXISTS fences (
    pid INT NOT NULL,                           -- who moves
    subid INT NOT NULL,                         -- who obeys
    epoch BIGINT NOT NULL,                      -- only a higher one changes the row
    state VARCHAR(16) NOT NULL,                 -- open, followed, frozen, left (lcc.model.frontend.moves.Fence)
    obeyed_epoch BIGINT NOT NULL,               -- the sub-LCC is in that state since this epoch: drained, if frozen
    changed_time BIGINT NOT NULL,               -- when epoch or state changed last
    PRIMARY KEY (pid, subid),
    INDEX fences_sub (subid, epoch)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Registrations in progress, and content users of the whole, in tables like those of an LCC.
-- from 001_first: registrations, cudb
