CREATE STREAMING TABLE ${table}_clean AS
SELECT ${columns}
FROM STREAM(${table}_good);

-- Totals per minute and ${by}, sent when the minute can't change any more: an hour may be late.
CREATE TEMPORARY VIEW ${table}_per_minute AS
SELECT window.start AS minute, ${by}, count(*) AS records, ${total} AS ${amount}
FROM STREAM(${table}_clean) WATERMARK ${time} DELAY OF INTERVAL 1 HOUR
GROUP BY window(${time}, '1 minute'), ${by};

-- What is not good goes aside as it came, with the reason and its origin in the headers.
CREATE TEMPORARY VIEW ${table}_dead AS
SELECT
  key,
  value,
  array(
    named_struct(
      'key', 'error',
      'value', cast(coalesce(error, 'a field is missing or wrong') AS binary)
    ),
    named_struct('key', 'origin', 'value', cast(concat_ws(':', topic, partition, offset) AS binary))
  ) AS headers
FROM STREAM(${table}_bad);
