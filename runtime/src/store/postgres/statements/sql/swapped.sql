-- Follows a swap: one row with its nonce, whether it was applied or not.
SELECT $4, s.now, s.fence FROM (VALUES (1)) AS one LEFT JOIN swapped s ON true
