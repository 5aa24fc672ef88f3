-- Who reads the cache, and how far: written by the content user API, some seconds late.
CREATE TABLE IF NOT EXISTS cureads (
    cuid INT NOT NULL PRIMARY KEY,              -- of cudb; 0: whoever has no token
    last_time BIGINT NOT NULL,                  -- of its last request
    timeline VARCHAR(64) NOT NULL,              -- of this change; empty: from the beginning
    number BIGINT                               -- of the last change that it has; NULL: it never asked for changes
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
