/** Repairs of objects whose pages without a text the writer of an earlier version broke. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";

import { tableFromIPC } from "apache-arrow";
import { readParquet } from "parquet-wasm";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { checkLake } from "../../src/lake/check/check-lake.js";
import type { LakeReport } from "../../src/lake/check/lake-report.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { encodeTable } from "../../src/lake/parquet/write.js";
import { ByteBuffer } from "../../src/lake/parquet/byte-buffer.js";
import { mendPages } from "../../src/lake/parquet/mend-pages.js";
import { sweepRetired } from "../../src/lake/retire.js";
import type { RemoteObjects } from "../../src/lake/store/object-store.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { commitLogs } from "../helpers/lake/lake-commit.js";
import type { LeafColumn } from "../../src/lake/tables/columns.js";
import { createColumns, tables } from "../../src/lake/tables/tables.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { storeWith } from "../helpers/lake/store-with.js";
import { pushValue } from "../helpers/lake/lake-rows.js";
import { askErasure, publishedValues, taskContext } from "../helpers/lake/lake-tasks.js";
import { fixed64, message, text, varintField } from "../helpers/otlp/otlp-bodies.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";

/** How `writeDeltaLengths` says that there are none. */
const noLengths = Buffer.from([0x80, 0x01, 4, 0, 0]);

/** Writes as the earlier version did, which left that out. */
async function asEarlier<T>(write: () => T | Promise<T>): Promise<T> {
  const spy = vi.spyOn(ByteBuffer.prototype, "zigzag").mockImplementation(function (this: ByteBuffer, value) {
    this.varint(value < 0 ? -2 * value - 1 : 2 * value);
    if (noLengths.equals(this.view().subarray(-noLengths.length))) {
      this.length -= noLengths.length;
    }
  });
  try {
    return await write();
  } finally {
    spy.mockRestore();
  }
}

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
  // Somebody has looked at the clock lately.
  await lab.sql`update lake_state set seen_at = now()`;
});
afterEach(() => lab.stop());

function logs(service: string, bodies: readonly (string | null)[]): string {
  const time = BigInt(Date.now()) * 1_000_000n;
  const records = bodies.map((body, n) =>
    message(2, [
      fixed64(1, time + BigInt(n)),
      varintField(2, 9),
      ...(body === null ? [text(12, "browser.click")] : [message(5, [text(1, body)])]),
    ]),
  );
  const resource = message(1, [message(1, [text(1, "service.name"), message(2, [text(1, service)])])]);
  return message(1, [resource, message(2, records)]).toString("base64");
}

const long = (n: number): string => `${n} ${"x".repeat(600_000)}`;
const events = Array.from({ length: 100 }, () => null);

/** Commits two long messages and a hundred without one, as the earlier version did. */
async function commitBroken(audience = "a"): Promise<string> {
  const bodies = [logs("a", [long(1)]), logs("a", [long(2)]), logs("b", events)];
  const sent = bodies.map((body) => ({ audience, body }));
  expect(await asEarlier(() => commitLogs(lab.sql, lab.context.store, sent))).toEqual({ kind: "committed" });
  const [row] = await lab.sql<{ path: string }[]>`select path from lakehouse_partitions where audience = ${audience}`;
  return row?.path ?? "";
}

const check = (o: { readonly repair: boolean; readonly deep?: boolean }): Promise<LakeReport> =>
  checkLake(lab.context, { deep: true, ...o });
const problems = (report: LakeReport) =>
  report.problems.map(({ kind, path: of, mended, detail }) => ({ kind, path: of, mended, detail }));
const standing = () => lab.sql<Record<string, unknown>[]>`select * from lakehouse_partitions`;
const messages = async (): Promise<string[]> =>
  (await publishedValues(lab, "log_entries", "msg")).map((msg) => msg.slice(0, 2)).toSorted();
const found = ["1 ", "2 ", ...events.map(() => "nu")];

it("gives the rows back, in an object of another name, and merges that", async () => {
  const broken = await commitBroken();
  const [before] = await standing();
  await expect(messages()).rejects.toThrow("Out of buffer");
  const detail = expect.stringContaining("a repair gets all rows back") as string;
  expect(problems(await check({ repair: false }))).toEqual([
    { kind: "unreadable", path: broken, mended: false, detail },
  ]);

  const report = await check({ repair: true });
  const [after] = await standing();
  expect(after).toEqual({
    ...before,
    partition_id: expect.anything() as unknown,
    path: expect.stringMatching(/^log_entries\/audience=a\/[-0-9]+\/[-0-9a-f]+\.l0\.parquet$/u) as string,
    file_bytes: expect.anything() as unknown,
    checksum: expect.anything() as unknown,
  });
  const { path: whole, file_bytes: bytes } = after as { path: string; file_bytes: unknown };
  expect(problems(report)).toEqual([
    { kind: "unreadable", path: broken, mended: true, detail: expect.stringContaining(whole) as string },
  ]);
  expect(path.basename(whole)).toBe(`${String(after?.["partition_id"])}.l0.parquet`);
  expect(whole).not.toBe(broken);
  expect((await stat(path.join(lab.lake.directory, whole))).size).toBe(Number(bytes));
  expect(await messages()).toEqual(found.toSorted());
  expect(await check({ repair: true })).toMatchObject({ problems: [], counts: { objects: 1, rows: 102 } });

  // Who has the old one open may read on.
  expect(await lab.sql`select path from retired_objects`).toEqual([{ path: broken }]);
  await sweepRetired(lab.sql, lab.context.store, 0);
  expect(await mergePartitions(lab.context, mergeAll)).toMatchObject([{ action: "created" }, { action: "replaced" }]);
  expect(await messages()).toEqual(found.toSorted());
});

it("is mended by the merge that meets it, and merged with the others", async () => {
  const broken = await commitBroken();
  const sent = [{ audience: "a", body: logs("c", ["3 "]) }];
  await commitLogs(lab.sql, lab.context.store, sent);
  const merged = await mergePartitions(lab.context, mergeAll);
  expect(merged.map(({ action, rowCount }) => [action, rowCount])).toEqual([
    ["replaced", 102],
    ["created", 102],
    ["created", 103],
    ["replaced", 102],
    ["replaced", 1],
  ]);
  expect(merged[0]?.path).toBe(broken);
  expect(await messages()).toEqual([...found, "3 "].toSorted());
  expect(await standing()).toHaveLength(1);
  expect(await check({ repair: false })).toMatchObject({ problems: [] });
  await sweepRetired(lab.sql, lab.context.store, 0);
  expect(await messages()).toEqual([...found, "3 "].toSorted());
});

it("puts back what an earlier repair took out, without what was erased since", async () => {
  const broken = await commitBroken();
  await lab.sql`
    with gone as (delete from lakehouse_partitions returning *)
    insert into lost_partitions (partition_id, path, reason, partition)
    select partition_id, path, 'unreadable', to_jsonb(gone) || '{"erased_by": []}' from gone`;
  await runTask(taskContext(lab), await askErasure(lab, { audience: "a", where: { service: "b" } }));
  expect(problems(await check({ repair: false, deep: false }))).toMatchObject([{ kind: "lost", mended: false }]);
  expect(problems(await check({ repair: true, deep: false }))).toMatchObject([
    {
      kind: "returned",
      path: broken,
      mended: true,
      detail: expect.stringContaining("erased meanwhile: 100") as string,
    },
  ]);
  expect(await messages()).toEqual(["1 ", "2 "]);
  expect(await lab.sql`select from lost_partitions`).toEqual([]);
  expect(await check({ repair: true })).toMatchObject({ problems: [] });
});

it("mends objects of a bucket, and goes on where one is gone when it is read again", async () => {
  const broken = await commitBroken();
  const gone = await commitBroken("b");
  const { store } = lab.context;
  const root = await mkdtemp(path.join(tmpdir(), "telemetry-test-mend-"));
  let reads = 0;
  const remote: RemoteObjects = {
    putFile: async (where, file) => {
      const bytes = await readFile(file);
      await store.put(where, [bytes]);
      return { fileBytes: bytes.length, checksum: crc32(bytes) };
    },
    read: async (where, _range, onBytes) => {
      if (where === gone && ++reads > 2) {
        throw new ServiceError("NOT_FOUND");
      }
      await onBytes(await readFile(path.join(lab.lake.directory, where)), 0);
    },
    verify: () => Promise.resolve(),
  };
  const bucket = storeWith(store, { localPath: () => null, remote });
  const context = { ...lab.limited({}), unstampedAudience: "public", store: bucket, root };
  const report = problems(await checkLake(context, { repair: true, deep: true }));
  expect(report.toSorted((a, b) => (a.path < b.path ? -1 : 1))).toMatchObject([
    { kind: "unreadable", path: broken, mended: true, detail: expect.stringContaining("earlier version") as string },
    { kind: "unreadable", path: gone, mended: true },
  ]);
  expect(await lab.sql`select path from lost_partitions`).toEqual([{ path: gone }]);
  expect(await messages()).toEqual(found.toSorted());
  await rm(root, { recursive: true });
});

it("leaves objects alone that have another fault as well", async () => {
  const broken = await commitBroken();
  const file = path.join(lab.lake.directory, broken);
  const bytes = await readFile(file);
  // In the head of a page.
  bytes.fill(0xff, 4, 40);
  await writeFile(file, bytes);
  const report = problems(await check({ repair: true }));
  expect(report).toMatchObject([{ kind: "unreadable", path: broken, mended: true }]);
  expect(report[0]?.detail).not.toContain("earlier version");
  expect(await lab.sql`select reason from lost_partitions`).toEqual([{ reason: "unreadable" }]);
});

it.each(["none", "lz4"] as const)("is the file that this version writes (%s)", async (compression) => {
  const columns = createColumns(tables.spans);
  const rows = 2000;
  for (let row = 0; row < rows; row++) {
    for (const [name, { type, nullable }] of Object.entries<{ type: string; nullable?: boolean }>(tables.spans)) {
      const column = columns[name as keyof typeof columns];
      if (column.kind === "list") {
        if (name === "events" && row < 60) {
          const properties = JSON.stringify({ row, text: "x".repeat(30_000) });
          const event = { time: BigInt(row), name: "exception", properties, dropped_attributes_count: 0n };
          const children: Readonly<Record<string, LeafColumn>> = column.children;
          for (const [child, value] of Object.entries(event)) {
            pushValue(children[child]!, value);
          }
        }
        column.finish();
      } else {
        const ids = name === "trace_id" && row >= 1000 ? `${row}${"a".repeat(1200)}` : null;
        const value = type.includes("utf8") ? "" : type === "int32" || type === "bool" ? 0 : BigInt(row);
        pushValue(column, nullable === true ? ids : value);
      }
    }
  }
  const encode = (): Buffer => Buffer.concat(encodeTable("spans", columns, rows, { compression }).chunks);
  const whole = encode();
  const broken = await asEarlier(encode);
  expect(broken.length).toBeLessThan(whole.length);
  const mended = mendPages(broken);
  expect(mended === null ? null : Buffer.from(mended).equals(whole)).toBe(true);
  expect(tableFromIPC(readParquet(whole).intoIPCStream()).numRows).toBe(rows);
  expect(mendPages(whole)).toBeNull();
});

it.each([
  ["nothing", Buffer.alloc(0)],
  ["no Parquet file", Buffer.from("PAR1 and so on, but no footer")],
  ["a footer longer than the file", Buffer.from("PAR1\xff\xff\x00\x00PAR1", "latin1")],
])("takes no %s for such a file", (_what, bytes) => {
  expect(mendPages(bytes)).toBeNull();
});
