-- Positions in all sub-LCCs are as long as there are sub-LCCs.
ALTER TABLE hubask MODIFY timeline MEDIUMTEXT NOT NULL;
ALTER TABLE hubsub MODIFY timeline MEDIUMTEXT NOT NULL;
