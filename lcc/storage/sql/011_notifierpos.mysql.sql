-- Which sets of each notifier are applied, so that one that it tells again after a crash is not applied twice.
CREATE TABLE IF NOT EXISTS notifierpos (
    notifier VARBINARY(60) NOT NULL,            -- its role and name, as push/p1
    epoch VARBINARY(60) NOT NULL,               -- of its numbers
    numbers VARBINARY(6000) NOT NULL,           -- those that are applied: "1-41 43-77", the last ranges of them
    time BIGINT NOT NULL,                       -- when the last of them was
    PRIMARY KEY (notifier, epoch)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
