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

it("are kept once they have grown, among many audiences with few rows", () => {
  const builder = createBuilder();
  const large = oneLog({ body: { stringValue: "x".repeat(200_000) } });
  const used = Array.from({ length: 4 }, () => {
    builder.begin(receivedAt, new Set());
    expect(builder.add(large, plainHead(1, { audience: "large" })).kind).toBe("stored");
    for (let n = 0; n < 20; n++) {
      expect(builder.add(oneLog({}), plainHead(1, { audience: `team-${n}` })).kind).toBe("stored");
    }
    const group = builder.finish().groups.find(({ audience }) => audience === "large");
    return group?.tables.log_entries.columns.msg.bytes.buffer;
  });
  expect(new Set(used).size).toBe(1);
});
