-- Readers of one tenant: a role sees only the runs with its label, whatever program connects as it.
-- Apply it as the owner of the tables, and again after each `handrail runs migrate`:
--   psql -v ON_ERROR_STOP=1 -f deploy/postgres-rls.sql postgresql://owner@host/runs
-- Then add a reader:
--   CREATE ROLE acme_reader LOGIN PASSWORD '...' IN ROLE handrail_reader;
--   INSERT INTO runs_reader VALUES ('acme_reader', 'tenant=acme');
-- The owner of the tables sees all rows. Any other role that works on runs must be in handrail_writer.
BEGIN;

DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'handrail_reader') THEN
        CREATE ROLE handrail_reader NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'handrail_writer') THEN
        CREATE ROLE handrail_writer NOLOGIN;
    END IF;
END $$;

-- which labels a login role reads; readers have no right to this table
CREATE TABLE IF NOT EXISTS runs_reader (role name, label text, PRIMARY KEY (role, label));

-- they run as the owner, and so see all labels; session_user is the role that has logged in
CREATE OR REPLACE FUNCTION runs_reader_sees(run_id text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM handrail_label l JOIN runs_reader r ON r.label = l.label
                   WHERE l.run = run_id AND r.role = session_user) $$;
CREATE OR REPLACE FUNCTION runs_reader_has(labels text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM runs_reader r WHERE r.role = session_user AND labels::jsonb ? r.label) $$;

-- A table with the column run follows its run. The last line is for tables with no rows of a run.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.relname AS name, CASE
            WHEN c.relname = 'handrail_run' THEN 'runs_reader_sees(id)'
            WHEN c.relname = 'handrail_rule' THEN 'runs_reader_has(labels)'
            WHEN c.relname = 'handrail_vote' THEN 'pending IN (SELECT q.id FROM handrail_question q)'
            WHEN EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'run')
                THEN 'runs_reader_sees(run)'
            WHEN c.relname = 'handrail_schema' THEN 'true'
            WHEN c.relname IN ('handrail_approval', 'handrail_budget', 'handrail_budget_part', 'handrail_file',
                'handrail_rate', 'handrail_remembered', 'handrail_reservation', 'handrail_worker') THEN 'false' END AS condition
        FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
            AND c.relname LIKE 'handrail\_%'
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', found.name);
        EXECUTE format('DROP POLICY IF EXISTS reads ON %I', found.name);
        EXECUTE format('DROP POLICY IF EXISTS works ON %I', found.name);
        EXECUTE format('CREATE POLICY works ON %I TO handrail_writer USING (true)', found.name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO handrail_writer', found.name);
        IF found.condition IS NULL THEN
            RAISE WARNING 'readers see no rows of %: say here which ones they may see', found.name;
        ELSE
            EXECUTE format('CREATE POLICY reads ON %I FOR SELECT TO handrail_reader USING (%s)',
                           found.name, found.condition);
        END IF;
        EXECUTE format('GRANT SELECT ON %I TO handrail_reader', found.name);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO handrail_reader, handrail_writer', current_schema());
END $$;

COMMIT;
