/** One request through a SegmentBuilder, as plain rows. */
import type { BodyHead } from "../../../src/ingest/body-head.js";
import { type RequestOutcome, SegmentBuilder } from "../../../src/ingest/segment.js";
import type { TableName } from "../../../src/lake/tables/tables.js";
import type { Segment } from "../../../src/lake/write-segment.js";
import { columnsToRows, type PlainRow } from "./columns-to-rows.js";

/** Time of receipt in tests, nanoseconds. */
export const receivedAt = 1_700_000_000_123_456_789n;

const tableNames: readonly TableName[] = ["log_entries", "measures", "histograms", "spans"];

/** Rows by table. */
type SegmentRows = { readonly [T in TableName]: PlainRow[] };

/** A builder with the usual limits, or narrower ones. */
export function createBuilder(maxInflatedBytes = 64 * 1024 * 1024, maxDepth = 100): SegmentBuilder {
  return new SegmentBuilder({ maxInflatedBytes, maxDepth });
}

/** The head of a protobuf request without a content coding. */
export function plainHead(signal: 1 | 2 | 3, change: Partial<BodyHead> = {}): BodyHead {
  return { signal, format: "protobuf", encoding: "identity", audience: "public", ...change };
}

/** All rows of all audiences of a segment. */
export function segmentRows(segment: Segment): SegmentRows {
  const rows: SegmentRows = { log_entries: [], measures: [], histograms: [], spans: [] };
  for (const group of segment.groups) {
    for (const name of tableNames) {
      rows[name].push(...columnsToRows(name, group.tables[name]));
    }
  }
  return rows;
}

/** Decodes one request in a segment of its own. */
export function decodeOne(
  builder: SegmentBuilder,
  body: Uint8Array,
  head: BodyHead,
): { outcome: RequestOutcome; segment: Segment; rows: SegmentRows } {
  builder.begin(receivedAt, new Set());
  const outcome = builder.add(body, head);
  const segment = builder.finish();
  return { outcome, segment, rows: segmentRows(segment) };
}

const idColumns: ReadonlySet<string> = new Set(["process_id", "stream_id", "block_id"]);

/** Rows without the ids that depend on the bytes of the request. */
export function withoutIds(rows: SegmentRows): SegmentRows {
  const strip = (row: PlainRow): PlainRow =>
    Object.fromEntries(Object.entries(row).filter(([name]) => !idColumns.has(name)));
  return {
    log_entries: rows.log_entries.map(strip),
    measures: rows.measures.map(strip),
    histograms: rows.histograms.map(strip),
    spans: rows.spans.map(strip),
  };
}
