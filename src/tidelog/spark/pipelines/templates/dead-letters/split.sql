-- What can be read goes on.
CREATE STREAMING TABLE ${table}_good AS
SELECT ${columns}
FROM STREAM(${table})
WHERE error IS NULL;

-- What can't goes aside as it came, with the reason and its origin in the headers, so that it can
-- be corrected and sent again.
CREATE TEMPORARY VIEW ${table}_dead AS
SELECT
  key,
  value,
  array(
    named_struct('key', 'error', 'value', cast(error AS binary)),
    named_struct('key', 'origin', 'value', cast(concat_ws(':', topic, partition, offset) AS binary))
  ) AS headers
FROM STREAM(${table})
WHERE error IS NOT NULL;
