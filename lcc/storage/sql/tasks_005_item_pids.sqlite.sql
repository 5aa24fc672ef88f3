-- Whose items are, so that content users who may see some providers see theirs, also after their feed has moved to another site.
ALTER TABLE feeditems ADD COLUMN pid INTEGER NOT NULL DEFAULT 0;  -- provider of the page that it was in last; 0: it was in none
UPDATE feeditems SET pid = COALESCE((SELECT tasks.pid FROM tasks WHERE tasks.id = feeditems.task), 0);
