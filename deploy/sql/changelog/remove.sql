-- Takes away everything that deploy/sql/changelog/create.sql made: the triggers of every table, and the changelog with all that it holds.
-- Plain SQL; it can be run again. Drop the feed that reads it first. The schema stays while it holds anything else.
DO $$
BEGIN
  IF to_regprocedure('tidemark.changelog_uninstall(regclass[])') IS NOT NULL THEN
    PERFORM tidemark.changelog_uninstall();
  END IF;
END
$$;
DROP FUNCTION IF EXISTS tidemark.changelog_install(regclass[], boolean), tidemark.changelog_uninstall(regclass[]),
  tidemark.changelog_key(regclass), tidemark.changelog_note(), tidemark.changelog_note_partition();
DROP TABLE IF EXISTS tidemark.changelog;
DROP SEQUENCE IF EXISTS tidemark.changelog_seq;
DO $$
BEGIN
  DROP SCHEMA IF EXISTS tidemark;
EXCEPTION WHEN dependent_objects_still_exist THEN
  RAISE NOTICE 'schema tidemark holds something else, and stays';
END
$$;
