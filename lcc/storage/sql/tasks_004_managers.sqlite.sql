-- Managers of jobs, as the scheduler knows them (lcc.storage.tasks.managers): for commands and the monitor.
CREATE TABLE managers (
    name TEXT NOT NULL,
    host TEXT NOT NULL,                         -- where its latest run is
    run TEXT NOT NULL,                          -- names its latest run
    first_time INTEGER NOT NULL,                -- when the name was heard of first
    started_time INTEGER NOT NULL,              -- when its latest run was heard of first
    heard_time INTEGER NOT NULL,                -- when it was heard of last; while it is connected, within half a minute
    down_time INTEGER,                          -- since when it is not connected; NULL: it is
    paused TEXT NOT NULL,                       -- why it takes no jobs; empty: it does
    capacity INTEGER NOT NULL,                  -- jobs at once; 0: as its kinds allow
    kinds TEXT NOT NULL,                        -- what it takes: a JSON list of [kind, jobs, seconds, memory_bytes, files]
    PRIMARY KEY (name)
) WITHOUT ROWID;
