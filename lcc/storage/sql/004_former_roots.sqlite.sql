-- Roots that a provider had, and has no longer: it may still delete what it told below them.
CREATE TABLE formerroots (
    pid INTEGER NOT NULL,
    position INTEGER NOT NULL,
    root TEXT NOT NULL,                         -- normalised
    PRIMARY KEY (pid, position)
) WITHOUT ROWID;
