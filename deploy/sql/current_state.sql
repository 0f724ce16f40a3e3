-- The current rows of a table from its changes, wherever these were loaded to (`tidemark tail --format jsonl`, `tidemark export`).
--
-- Here: changes of public.orders in a table orders_changes with a column per column of the table, and __op, __pos, __seq as they
-- come. Put in your own table, its key (PARTITION BY) and its columns. Neither the order nor the repetition of loaded lines matters:
-- the change with the highest (__pos, __seq) of a key is the current one. __pos is compared as text: a type or collation that sorts
-- digits before A-F, as every usual one does. A load that ends inside a commit shows part of it: load whole commits.
--
-- Plain SQL:2003 window functions: PostgreSQL, SQLite, MySQL 8, MariaDB, Snowflake, BigQuery, Redshift, DuckDB, Databricks, SQL Server.
CREATE VIEW orders_current AS
SELECT id, customer, total, placed
FROM (
  SELECT change.*, ROW_NUMBER() OVER (PARTITION BY id ORDER BY __pos DESC, __seq DESC) AS newest
  FROM orders_changes AS change
  WHERE __op <> 'truncate'
    -- What came before a truncate of the table is gone.
    AND NOT EXISTS (
      SELECT 1 FROM orders_changes AS emptied
      WHERE emptied.__op = 'truncate'
        AND (emptied.__pos > change.__pos OR (emptied.__pos = change.__pos AND emptied.__seq > change.__seq)))
) AS ranked
WHERE newest = 1 AND __op <> 'delete';
