-- The current rows of a table from its changes, wherever these were loaded to (`tidemark tail --format jsonl`, `tidemark export`).
--
-- Here: changes of public.orders in a table orders_changes with a column per column of the table, and __op, __pos, __seq as they
-- come. Put in your own table, its key (PARTITION BY) and its columns. Neither the order nor the repetition of loaded lines matters:
-- the change with the highest (__pos, __seq) of a key is the current one. A key whose last change is a delete has no row; an update of
-- the key is a delete of the old one and an insert of the new one; what came before the last truncate is gone. __pos is compared as
-- text: a type or collation that sorts digits before A-F, as every usual one does.
--
-- What to load:
-- * Whole commits. A load that ends inside a commit shows a part of it.
-- * The lines of this table only (__table), and changes only. A line with __record instead of __op is none, and counts for nothing here
--   when it was loaded (its __op is NULL). What it says is for whoever loads: `schema_change`, the table has other columns from here on;
--   give orders_changes and the view the same. `gap`, changes may be missing; the rows are right again once the tables were read again
--   (`recovery: resnapshot`, `tidemark table read`). `rows_again`, the snapshot that this tail printed broke and begins again: delete
--   the lines that this tail loaded before it.
-- * Whole images. An absent value is not NULL: a line of JSON leaves the column out, CSV names it in __absent, and both would be NULL
--   here. Inserts, updates and reads are whole for a table of which the feed keeps the current rows (`tidemark describe`: "current rows
--   kept") and which has no problem in `tidemark status`. Those of a table in rows_off, or with IDENTITY_CHANGED or CHANGES_MISSING,
--   leave out large values that an update did not touch: have the loader refuse an insert, update or read that lacks a column.
-- * A table with a key: lines without one have nothing to be partitioned by.
--
-- Run by the tests, as it stands here, on PostgreSQL (15, and 18 in the lane `newest`), SQLite and MariaDB 10.11. Written for MySQL 8,
-- Snowflake, BigQuery, Redshift, DuckDB, Databricks and SQL Server, and not run there: it takes nothing but derived tables, a cross join
-- with one row and ROW_NUMBER; no correlated subquery, no join on an inequality, no reserved word as a name.
CREATE VIEW orders_current AS
SELECT id, customer, total, placed
FROM (
  SELECT loaded.id, loaded.customer, loaded.total, loaded.placed, loaded.__op AS last_op,
         ROW_NUMBER() OVER (PARTITION BY loaded.id ORDER BY loaded.__pos DESC, loaded.__seq DESC) AS newest
  FROM orders_changes loaded
  CROSS JOIN (
    -- The last truncate. MAX makes it one row always, of NULLs where there was none.
    SELECT MAX(__pos) AS last_pos, MAX(__seq) AS last_seq
    FROM (
      SELECT __pos, __seq, ROW_NUMBER() OVER (ORDER BY __pos DESC, __seq DESC) AS newest
      FROM orders_changes
      WHERE __op = 'truncate'
    ) truncates
    WHERE newest = 1
  ) emptied
  WHERE loaded.__op <> 'truncate'
    AND (emptied.last_pos IS NULL OR loaded.__pos > emptied.last_pos
         OR (loaded.__pos = emptied.last_pos AND loaded.__seq > emptied.last_seq))
) ranked
WHERE newest = 1 AND last_op <> 'delete';
