-- Prepares a PostgreSQL database (13 or newer) as a source of Tidemark. Run it once in the database that is to be captured, as a
-- superuser, or as the owner of the tables with CREATE on the database once a superuser has run CREATE ROLE tidemark LOGIN REPLICATION:
--
--   psql -d shop -v role=tidemark -v publication=tidemark_shop -v tables='public.orders, public.customers' \
--        -f deploy/sql/prepare_source.sql
--
-- role         who captures; made when absent, without a password: \password sets one
-- publication  as in the feed's configuration; default there: tidemark_<feed>
-- tables       as SQL names them, separated by commas
--
-- For a standby as the source (16 or newer) run it on the primary; set hot_standby_feedback = on and primary_slot_name on the standby.
--
-- It can be run again. tidemarkd --check says what is still missing afterwards. The role may write nothing: the publication belongs to
-- whoever runs this. For a table that comes later, run it again with all of them.
\set ON_ERROR_STOP on
\if :{?role} \else \set role tidemark
\endif
\if :{?publication} \else \echo 'set -v publication=...' \quit
\endif
\if :{?tables} \else \echo 'set -v tables=...' \quit
\endif

-- The server itself: needs a restart, so it is only looked at here.
SELECT CASE current_setting('wal_level') WHEN 'logical' THEN 'wal_level is logical: good'
       ELSE 'NEEDED: ALTER SYSTEM SET wal_level = logical; and a restart of the server' END AS wal_level;

-- The role: it logs in, reads the log and the captured tables, and nothing else. Only a superuser may give REPLICATION.
SELECT format('CREATE ROLE %I LOGIN REPLICATION', :'role')
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = :'role') \gexec
SELECT format('ALTER ROLE %I LOGIN REPLICATION', :'role')
FROM pg_roles WHERE rolname = :'role' AND NOT (rolcanlogin AND rolreplication) \gexec
SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role')
WHERE NOT has_database_privilege(:'role', current_database(), 'CONNECT') \gexec

-- All columns of each table: changes carry all of them. The schemas of the tables, and of the types of their keys.
GRANT SELECT ON TABLE :tables TO :"role";
SELECT DISTINCT format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, :'role')
FROM regexp_split_to_table(:'tables', '\s*,\s*') t(name)
JOIN pg_class c ON c.oid = to_regclass(t.name)
LEFT JOIN pg_index i ON i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
LEFT JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_namespace n ON n.oid IN (c.relnamespace, y.typnamespace)
WHERE NOT has_schema_privilege(:'role', n.oid, 'USAGE') \gexec

-- A policy would hide rows from the role, while the changes come of all: Tidemark refuses such a table. BYPASSRLS is the owner's choice.
SELECT format('%s has row level security: ALTER ROLE %I BYPASSRLS; as a superuser (the role still reads only what is granted to it)',
              t.name, :'role') AS needed
FROM regexp_split_to_table(:'tables', '\s*,\s*') t(name)
JOIN pg_class c ON c.oid = to_regclass(t.name)
JOIN pg_roles r ON r.rolname = :'role'
WHERE c.relrowsecurity AND NOT r.rolbypassrls AND NOT r.rolsuper;

-- Updates and deletes of a published table need a replica identity; without a primary key PostgreSQL refuses them.
SELECT format('%s has no primary key and no replica identity: ALTER TABLE %s REPLICA IDENTITY FULL', t.name, t.name) AS needed
FROM regexp_split_to_table(:'tables', '\s*,\s*') t(name)
JOIN pg_class c ON c.oid = to_regclass(t.name)
WHERE c.relreplident = 'n' OR (c.relreplident = 'd' AND NOT EXISTS
  (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary));

-- The publication must exist before the slot; Tidemark makes the slot itself.
SELECT format('CREATE PUBLICATION %I WITH (publish_via_partition_root = true)', :'publication')
WHERE NOT EXISTS (SELECT 1 FROM pg_publication WHERE pubname = :'publication') \gexec
-- ONLY: the children of a table that others inherit from are tables of their own. Partitions come with their root all the same.
SELECT format('ALTER PUBLICATION %I SET TABLE ONLY %s', :'publication', regexp_replace(:'tables', '\s*,\s*', ', ONLY ', 'g')) \gexec
