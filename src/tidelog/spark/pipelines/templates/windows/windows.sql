-- How many per minute and ${by}. A minute is sent once, when records ten minutes younger have come:
-- until then, late ones are counted in.
CREATE STREAMING TABLE ${table}_per_minute AS
SELECT window.start AS minute, ${by}, count(*) AS records
FROM STREAM(${table}) WATERMARK ${time} DELAY OF INTERVAL 10 MINUTES
WHERE error IS NULL
GROUP BY window(${time}, '1 minute'), ${by};
