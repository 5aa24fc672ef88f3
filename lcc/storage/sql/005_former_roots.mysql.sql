-- Roots that a provider had, and has no longer: it may still delete what it told below them.
CREATE TABLE IF NOT EXISTS formerroots (
    pid INT NOT NULL,
    position INT NOT NULL,
    root MEDIUMTEXT NOT NULL,                   -- normalised
    PRIMARY KEY (pid, position)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
