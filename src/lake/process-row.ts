/** How a row of `processes` travels to the database: as JSON text, made when a thread first meets a process. */
import type { ProcessColumns, ProcessRow } from "./catalogue-rows.js";
import { databaseJson, databaseText } from "./database-text.js";

/** The row of these columns. What Postgres cannot hold is replaced. */
export function processRow(o: ProcessColumns): ProcessRow {
  const columns = JSON.stringify({
    process_id: o.processId,
    audience: o.audience,
    service_namespace: nullableText(o.serviceNamespace),
    service_name: nullableText(o.serviceName),
    service_instance_id: nullableText(o.serviceInstanceId),
    service_version: nullableText(o.serviceVersion),
    host_id: nullableText(o.hostId),
    host_name: nullableText(o.hostName),
    process_pid: o.processPid,
    executable: nullableText(o.executable),
    username: nullableText(o.username),
    sdk_name: nullableText(o.sdkName),
    sdk_language: nullableText(o.sdkLanguage),
    sdk_version: nullableText(o.sdkVersion),
    start_seconds: startSeconds(o.startTimeMs),
    properties: databaseJson(o.properties),
  });
  return { processId: o.processId, columns };
}

/** The text that `json_to_recordset` makes rows from. */
export function processesJson(rows: readonly ProcessRow[]): string {
  return `[${rows.map(({ columns }) => columns).join(",")}]`;
}

function nullableText(text: string | null): string | null {
  return text === null ? null : databaseText(text);
}

/** Postgres holds 4713 BC to 294276; a start outside year 1 to 9999 is garbage in any case. */
function startSeconds(ms: number | null): number | null {
  const inRange = ms !== null && ms > -62_135_596_800_000 && ms < 253_402_300_800_000;
  return inRange ? ms / 1000 : null;
}
