/** Builders of rows: a set for each audience and table of a batch. */
import { expect, it } from "vitest";

import { TableState } from "../../src/ingest/rows/table-state.js";
import { type TableName, tables } from "../../src/lake/tables/tables.js";
import { createBuilder, plainHead, receivedAt } from "../helpers/lake/segment.js";
import { oneLog } from "../helpers/otlp/otlp-build.js";

const tableNames = Object.keys(tables) as TableName[];

it("are small at first", () => {
  const sizes = tableNames.map((name) => new TableState(name).heldBytes());
  expect(Math.max(...sizes)).toBeLessThan(64 * 1024);
});

it("are kept for the next segment while they are small, for hundreds of audiences", () => {
  const builder = createBuilder();
  const [first, second] = [1, 2].map((round) => {
    builder.begin(receivedAt, new Set());
    for (let n = 0; n < 300; n++) {
      const body = oneLog({ body: { stringValue: `${round}, ${n}` } });
      expect(builder.add(body, plainHead(1, { audience: `team-${n}` })).kind).toBe("stored");
    }
    const { groups } = builder.finish();
    return new Set(groups.map((group) => group.tables.log_entries.columns.msg.bytes.buffer));
  });
  expect(first?.size).toBe(300);
  expect([...(second ?? [])].filter((buffer) => first?.has(buffer))).toHaveLength(300);
});
