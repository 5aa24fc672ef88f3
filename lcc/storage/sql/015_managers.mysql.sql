-- Managers of jobs, as the scheduler knows them (lcc.storage.tasks.managers): for commands and the monitor.
CREATE TABLE IF NOT EXISTS managers (
    name VARCHAR(255) NOT NULL,
    host VARCHAR(255) NOT NULL,                 -- where its latest run is
    run VARCHAR(255) NOT NULL,                  -- names its latest run
    first_time BIGINT NOT NULL,                 -- when the name was heard of first
    started_time BIGINT NOT NULL,               -- when its latest run was heard of first
    heard_time BIGINT NOT NULL,                 -- when it was heard of last; while it is connected, within half a minute
    down_time BIGINT,                           -- since when it is not connected; NULL: it is
    paused MEDIUMTEXT NOT NULL,                 -- why it takes no jobs; empty: it does
    capacity BIGINT NOT NULL,                   -- jobs at once; 0: as its kinds allow
    kinds MEDIUMTEXT NOT NULL,                  -- what it takes: a JSON list of [kind, jobs, seconds, memory_bytes, files]
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
