-- A store from before packs noted in the audit that the lanes had their first capacities: from then on they are people's.

INSERT INTO headgate_pack_ledger (pack, item, checksum, made_at)
SELECT 'media', lane, '', max(at)
  FROM headgate_task_event
  CROSS JOIN (SELECT 'lane requires_cookie' AS lane UNION ALL SELECT 'lane no_cookie') AS lanes
 WHERE task_id IS NULL AND kind = 'request_lanes_made'
 GROUP BY lane;
