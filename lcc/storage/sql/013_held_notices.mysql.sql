-- Hints that wait until the robots.txt of their site is known (lcc.storage.tasks.polling.robots).
CREATE TABLE IF NOT EXISTS heldnotices (
    number BIGINT NOT NULL,
    origin VARCHAR(255) NOT NULL,               -- as in robots
    url MEDIUMTEXT NOT NULL,
    source VARCHAR(255) NOT NULL,               -- feed, link
    op VARCHAR(255) NOT NULL,                   -- update, recheck
    mimetype VARCHAR(255) NOT NULL,             -- empty: not known
    job BIGINT NOT NULL,                        -- that notifies
    time BIGINT NOT NULL,
    PRIMARY KEY (number),
    KEY heldnotices_origin (origin, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
