-- Makes a changelog in a PostgreSQL database (13 or newer) where logical replication is not to be had: a table that triggers fill with
-- every change of the tables that are installed, and that Tidemark reads (`changelog:` in the configuration of a feed). Plain SQL; it can
-- be run again, also to bring an older one up to date. Run it in the database of the tables, as their owner or as a superuser:
--
--   psql -d shop -v ON_ERROR_STOP=1 -1 -f deploy/sql/changelog/create.sql
--   SELECT tidemark.changelog_install('{public.orders, public.customers}');
--   GRANT USAGE ON SCHEMA tidemark TO tidemark; GRANT SELECT ON tidemark.changelog TO tidemark;   -- and DELETE, for trim: true
--
-- Who writes to the installed tables needs no right on anything here: the trigger function runs as the owner of the changelog (SECURITY
-- DEFINER, with a search_path of its own), so that nobody can write to the changelog, or read it, but through a change of a table.

CREATE SCHEMA IF NOT EXISTS tidemark;

-- Numbers are drawn one by one: a session that had drawn some in advance (CACHE) would give a later change of a row a lower number than an
-- earlier one.
CREATE SEQUENCE IF NOT EXISTS tidemark.changelog_seq AS bigint CACHE 1 NO CYCLE;
CREATE TABLE IF NOT EXISTS tidemark.changelog (
  seq bigint PRIMARY KEY DEFAULT nextval('tidemark.changelog_seq'),
  -- Of the top-level transaction, also within a savepoint, and 64 bits wide; the system column xmin is neither.
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  schema_name text NOT NULL,
  table_name text NOT NULL,
  -- insert, update, delete or truncate. An update that changes the key is two rows: a delete that has a "row" (the new one), and an
  -- insert that has an old_row.
  op text NOT NULL CHECK (op IN ('insert', 'update', 'delete', 'truncate')),
  key jsonb CHECK (key IS NOT NULL OR op = 'truncate'),
  "row" jsonb,
  old_row jsonb,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER SEQUENCE tidemark.changelog_seq OWNED BY tidemark.changelog.seq;
-- Each pull reads by it what came since the last one.
CREATE INDEX IF NOT EXISTS changelog_xid_seq ON tidemark.changelog (xid, seq);

-- Arguments of the trigger: schema and table under whose name it is told, then the columns of the key. The settings are those on which the
-- text of a value depends: the same key must be the same text, whoever writes.
CREATE OR REPLACE FUNCTION tidemark.changelog_note() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C'
AS $$
DECLARE
  key_columns CONSTANT text[] := TG_ARGV[2:];
  old_row jsonb;
  new_row jsonb;
  old_key jsonb;
  new_key jsonb;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF TG_WHEN = 'BEFORE' THEN
      -- Of a partitioned table: its partitions go with it, and say nothing themselves.
      PERFORM set_config('tidemark.truncating', concat_ws(',', nullif(current_setting('tidemark.truncating', true), ''), TG_RELID::text), true);
      RETURN NULL;
    END IF;
    PERFORM set_config('tidemark.truncating', '', true);
    INSERT INTO tidemark.changelog (schema_name, table_name, op) VALUES (TG_ARGV[0], TG_ARGV[1], 'truncate');
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    old_row := to_jsonb(OLD);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    new_row := to_jsonb(NEW);
  END IF;
  IF NOT coalesce(new_row, old_row) ?& key_columns THEN
    RAISE EXCEPTION 'table %.% no longer has every column of its key (%) in the changelog', TG_TABLE_SCHEMA, TG_TABLE_NAME,
      array_to_string(key_columns, ', ')
      USING HINT = format('SELECT tidemark.changelog_install(''{%I.%I}'');', TG_ARGV[0], TG_ARGV[1]);
  END IF;
  SELECT jsonb_object_agg(k, old_row -> k), jsonb_object_agg(k, new_row -> k) INTO old_key, new_key FROM unnest(key_columns) k;
  IF TG_OP = 'UPDATE' AND old_key <> new_key THEN
    INSERT INTO tidemark.changelog (schema_name, table_name, op, key, "row", old_row)
    VALUES (TG_ARGV[0], TG_ARGV[1], 'delete', old_key, new_row, old_row),
           (TG_ARGV[0], TG_ARGV[1], 'insert', new_key, new_row, old_row);
  ELSE
    INSERT INTO tidemark.changelog (schema_name, table_name, op, key, "row", old_row)
    VALUES (TG_ARGV[0], TG_ARGV[1], lower(TG_OP), CASE TG_OP WHEN 'DELETE' THEN old_key ELSE new_key END, new_row, old_row);
  END IF;
  RETURN NULL;
END
$$;

-- Before a partition alone is emptied: the others stay, so that each of its rows is told as deleted.
CREATE OR REPLACE FUNCTION tidemark.changelog_note_partition() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C'
AS $$
BEGIN
  IF pg_partition_root(TG_RELID)::oid::text = ANY (string_to_array(current_setting('tidemark.truncating', true), ',')) THEN
    RETURN NULL;
  END IF;
  EXECUTE format(
    'INSERT INTO tidemark.changelog (schema_name, table_name, op, key, old_row)'
    ' SELECT $1, $2, ''delete'', (SELECT jsonb_object_agg(k, r.image -> k) FROM unnest($3) k), r.image'
    ' FROM (SELECT to_jsonb(t) FROM ONLY %s t) r(image)', TG_RELID::regclass)
  USING TG_ARGV[0], TG_ARGV[1], TG_ARGV[2:];
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION tidemark.changelog_note(), tidemark.changelog_note_partition() FROM PUBLIC;

-- Columns by which the rows of a table are told apart: of the primary key, else of the index that is its replica identity. NULL: none
-- that is checked at once; with one that is DEFERRABLE, the triggers of one statement may see a key taken before it was given up.
CREATE OR REPLACE FUNCTION tidemark.changelog_key(wanted regclass) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT (SELECT array_agg(a.attname::text ORDER BY k.place)
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts)
  FROM pg_index i
  WHERE i.indrelid = wanted AND (i.indisprimary OR i.indisreplident) AND i.indimmediate AND i.indisvalid
  ORDER BY i.indisprimary DESC LIMIT 1
$$;

-- Puts the triggers on these tables, all or none, and says what it did. It can be run again: for a table whose key has changed, or that has
-- got partitions since then (those that a statement creates or attaches have the trigger for rows by themselves, but not the one for their
-- own TRUNCATE). A partitioned table is named, not its partitions: their rows are told under its name.
--
-- with_rows: the rows that are there are written to the changelog as inserted, so that who reads it knows all rows and not only those that
-- change. Nobody writes to the table meanwhile.
--
-- ENABLE ALWAYS: rows that are applied under session_replication_role = replica (by a subscription, by many tools that load or sync data)
-- fire no ordinary trigger. The name begins with 00, so that among the triggers of a row it comes first: what another one changes in turn
-- gets a higher number.
CREATE OR REPLACE FUNCTION tidemark.changelog_install(tables regclass[], with_rows boolean DEFAULT false) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C'
AS $$
DECLARE
  refused text;
  wanted regclass;
  part regclass;
  key_columns text[];
  arguments text;
  is_partitioned boolean;
  written bigint;
BEGIN
  SELECT string_agg(t.name || ' ' || t.why, '; ') INTO refused
  FROM (SELECT c.oid::regclass::text, CASE
          WHEN c.relkind NOT IN ('r', 'p') THEN 'is no table'
          WHEN c.relispartition THEN 'is a partition: name ' || pg_partition_root(c.oid)::text
          WHEN c.relpersistence <> 'p' THEN 'is not LOGGED: a crash would empty it without a trigger'
          WHEN c.oid = 'tidemark.changelog'::regclass THEN 'is the changelog'
          WHEN tidemark.changelog_key(c.oid) IS NULL THEN 'has no primary key (nor REPLICA IDENTITY USING INDEX), or only a DEFERRABLE one'
        END FROM pg_class c WHERE c.oid = ANY (tables)) t(name, why)
  WHERE t.why IS NOT NULL;
  IF refused IS NOT NULL THEN
    RAISE EXCEPTION 'not installed: %', refused;
  END IF;

  FOR wanted, arguments, is_partitioned IN
    SELECT c.oid, format('%L, %L', n.nspname, c.relname), c.relkind = 'p'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (tables) ORDER BY c.oid
  LOOP
    PERFORM tidemark.changelog_uninstall(ARRAY[wanted]);
    key_columns := tidemark.changelog_key(wanted);
    EXECUTE format('CREATE TRIGGER "00_tidemark_changelog" AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW'
                   ' EXECUTE FUNCTION tidemark.changelog_note(%s, %s)', wanted, arguments,
                   (SELECT string_agg(quote_literal(k), ', ') FROM unnest(key_columns) k));
    EXECUTE format('CREATE TRIGGER "00_tidemark_changelog_truncate" AFTER TRUNCATE ON %s FOR EACH STATEMENT'
                   ' EXECUTE FUNCTION tidemark.changelog_note(%s)', wanted, arguments);
    EXECUTE format('ALTER TABLE ONLY %1$s ENABLE ALWAYS TRIGGER "00_tidemark_changelog",'
                   ' ENABLE ALWAYS TRIGGER "00_tidemark_changelog_truncate"', wanted);
    IF is_partitioned THEN
      EXECUTE format('CREATE TRIGGER "00_tidemark_changelog_truncating" BEFORE TRUNCATE ON %s FOR EACH STATEMENT'
                     ' EXECUTE FUNCTION tidemark.changelog_note(%s)', wanted, arguments);
      EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER "00_tidemark_changelog_truncating"', wanted);
    END IF;
    FOR part IN SELECT p.relid FROM pg_partition_tree(wanted) p WHERE p.relid <> wanted LOOP
      EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER "00_tidemark_changelog"', part);
    END LOOP;
    FOR part IN SELECT p.relid FROM pg_partition_tree(wanted) p WHERE p.relid <> wanted AND p.isleaf LOOP
      EXECUTE format('CREATE TRIGGER "00_tidemark_changelog_partition" BEFORE TRUNCATE ON %s FOR EACH STATEMENT'
                     ' EXECUTE FUNCTION tidemark.changelog_note_partition(%s, %s)', part, arguments,
                     (SELECT string_agg(quote_literal(k), ', ') FROM unnest(key_columns) k));
      EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER "00_tidemark_changelog_partition"', part);
    END LOOP;
    IF with_rows THEN
      EXECUTE format('INSERT INTO tidemark.changelog (schema_name, table_name, op, key, "row")'
                     ' SELECT %s, ''insert'', (SELECT jsonb_object_agg(k, r.image -> k) FROM unnest($1) k), r.image'
                     ' FROM (SELECT to_jsonb(t) FROM %s%s t) r(image)', arguments, CASE WHEN is_partitioned THEN '' ELSE 'ONLY ' END, wanted)
      USING key_columns;
      GET DIAGNOSTICS written = ROW_COUNT;
      RETURN NEXT format('%s: installed, %s rows written', wanted, written);
    ELSE
      RETURN NEXT format('%s: installed', wanted);
    END IF;
  END LOOP;
END
$$;

-- Takes the triggers off these tables, or off all that have them. What the changelog holds stays.
CREATE OR REPLACE FUNCTION tidemark.changelog_uninstall(tables regclass[] DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  wanted regclass;
  trigger_name text;
BEGIN
  FOR wanted, trigger_name IN
    SELECT t.tgrelid, t.tgname FROM pg_trigger t
    WHERE t.tgfoid IN ('tidemark.changelog_note'::regproc, 'tidemark.changelog_note_partition'::regproc) AND t.tgparentid = 0
    AND (tables IS NULL OR coalesce(pg_partition_root(t.tgrelid), t.tgrelid) = ANY (tables))
    ORDER BY t.tgrelid, t.tgname
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, wanted);
    IF trigger_name = '00_tidemark_changelog' THEN
      RETURN NEXT format('%s: uninstalled', wanted);
    END IF;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidemark.changelog_install(regclass[], boolean), tidemark.changelog_uninstall(regclass[]) FROM PUBLIC;
