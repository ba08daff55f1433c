import { useQuery } from "@tanstack/react-query";

import { runQuery } from "../api/query.js";

/** A service that has sent something. */
interface Arrived {
  readonly name: string;
  readonly records: number;
}

const pollMs = 2000;
/** What the service says of itself is no news. */
const own = [
  "telemetry-monolith",
  "telemetry-ingestion-srv",
  "flight-sql-srv",
  "analytics-web-srv",
  "object-cache-srv",
  "telemetry-maintenance-srv",
];

const sql = `SELECT coalesce(p.service_name, 'a service without a name') AS name, CAST(sum(b.row_count) AS BIGINT) AS records
FROM blocks b JOIN processes p USING (process_id)
WHERE b.insert_time >= CAST(? AS TIMESTAMP_NS) AND (? = '' OR b.audience = ?)
  AND coalesce(p.service_name, '') NOT IN (${own.map((name) => `'${name}'`).join(", ")})
GROUP BY ALL ORDER BY records DESC LIMIT 5`;

/**
 * Services that have sent since, asked for every two seconds until there is one.
 * @param since ISO 8601; @param audience null: any that the caller may read.
 */
export function useArrivals(
  since: string,
  audience: string | null,
): { readonly services: readonly Arrived[]; readonly error: Error | null } {
  const { data, error } = useQuery({
    queryKey: ["arrivals", since, audience],
    queryFn: async ({ signal }) => {
      const parameters = [since.replace(/Z$/, ""), audience ?? "", audience ?? ""];
      const { columns, rows } = await runQuery({ sql, parameters }, {}, signal);
      return Array.from({ length: rows }, (_, row): Arrived => ({
        name: columns[0]?.text(row) ?? "",
        records: columns[1]?.number(row) ?? 0,
      }));
    },
    refetchInterval: ({ state }) => (state.data !== undefined && state.data.length > 0 ? pollMs * 5 : pollMs),
  });
  return { services: data ?? [], error };
}
