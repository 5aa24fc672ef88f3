-- Which sets of each notifier are applied, so that one that it tells again after a crash is not applied twice.
CREATE TABLE notifierpos (
    notifier BLOB NOT NULL,                     -- its role and name, as push/p1
    epoch BLOB NOT NULL,                        -- of its numbers
    numbers BLOB NOT NULL,                      -- those that are applied: "1-41 43-77", the last ranges of them
    time INTEGER NOT NULL,                      -- when the last of them was
    PRIMARY KEY (notifier, epoch)
) WITHOUT ROWID;
