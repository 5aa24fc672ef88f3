-- Order numbers are drawn for sets, connections are counted beside them (lcc.storage.providers.sessions).
ALTER TABLE connections
    ADD COLUMN sessions BIGINT NOT NULL DEFAULT 0,  -- the provider's connections up to countedseq
    ADD COLUMN countedseq BIGINT NOT NULL DEFAULT 0;-- lastconnseq when they were counted: what was drawn since are
                                                    -- connections at older UNSes

-- Unsolicited full sets that the queue manager may not have counted yet.
CREATE TABLE IF NOT EXISTS fullsets (
    pid INT NOT NULL,
    connseq BIGINT NOT NULL,                    -- the set's order number
    uns VARCHAR(255) NOT NULL,                  -- where it is
    time BIGINT NOT NULL,                       -- when it began
    PRIMARY KEY (pid, connseq)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
