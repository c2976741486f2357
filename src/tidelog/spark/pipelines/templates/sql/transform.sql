-- Yours to edit. `${table}` is the topic ${topic}: its fields, `error` for those that could not be
-- read, and the record's `key`, `topic`, `partition`, `offset`, `timestamp`.
CREATE STREAMING TABLE ${table}_out AS
SELECT ${columns}
FROM STREAM(${table})
WHERE error IS NULL;
