-- Yours to edit: the columns that go on.
CREATE STREAMING TABLE ${table}_once AS
SELECT ${columns}
FROM STREAM(${table}_distinct);
