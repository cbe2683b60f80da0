-- Lock: none. What park_note.sql works with, besides what note.sql does: a JSON array of [shard, epoch, id, queue, blocks, refused,
-- reason]; nothing where there is nothing to note.
SET @leastlock_parked = IF(@leastlock_noted = '[]', '[]', ?)
