/** Sums of CPU profiles, and the flame graph that is drawn of them. */
import { expect, test } from "vitest";

import { type CpuProfile, type Frame, moduleOf, sumProfiles } from "../../bench/profile/cpu-profile.js";
import { flameGraph } from "../../bench/profile/flame-graph.js";

const root = "file:///project/";
const ours = "file:///project/dist/src/ingest/segment.js";

/** (root) calls outer, (idle) and the collector; outer calls inner and fdatasync. */
const nodes = [
  [1, "(root)", "", [2, 3, 4]],
  [2, "outer", ours, [5, 6]],
  [3, "(idle)", "", []],
  [4, "(garbage collector)", "", []],
  [5, 'inner <T> & "U"\u0001', "node:internal/crypto/hash", []],
  [6, "fdatasync", "", []],
] as const;

const profileOf = (samples: readonly number[], timeDeltas: readonly number[], endTime: number): CpuProfile => ({
  nodes: nodes.map(([id, functionName, url, children]) => ({
    id,
    callFrame: { functionName, url, lineNumber: 0 },
    children,
  })),
  startTime: 1000,
  endTime,
  samples,
  timeDeltas,
});

/** From 1010: outer 100, inner 200, idle 400, the collector 50, the sync to disk 30, outer 10. */
const profile = profileOf([2, 5, 3, 4, 6, 2], [10, 100, 200, 400, 50, 30], 1800);

const micros = (shares: readonly { module: string; micros: number }[]): Record<string, number> =>
  Object.fromEntries(shares.map((share) => [share.module, share.micros]));

test.each([
  ["run", ours, "src/ingest/segment.ts"],
  ["run", "file:///project/scripts/build.mjs", "scripts/build.mjs"],
  ["run", "file:///elsewhere/a%20b.js", "file:///elsewhere/a b.js"],
  ["run", "file:///project/node_modules/.pnpm/piscina@5.3.2/node_modules/piscina/dist/worker.js", "piscina"],
  ["run", "/project/node_modules/.pnpm/@grpc+grpc-js@1/node_modules/@grpc/grpc-js/build/call.js", "@grpc/grpc-js"],
  ["run", "node:internal/crypto/hash", "node:internal/crypto/hash"],
  ["writeBuffers", "", "native"],
  ["fdatasync", "", "native, sync to disk"],
  ["(program)", "", "program"],
  ["(garbage collector)", "", "gc"],
])("%s of %j is in %j", (functionName, url, module) => {
  expect(moduleOf({ functionName, url, lineNumber: 0 }, root)).toBe(module);
});

test("a sample stands for the time until the next one, and idle time is apart", () => {
  const sums = sumProfiles([{ thread: "server, main", profile }], [], root);
  expect(micros(sums.modules)).toEqual({
    "node:internal/crypto/hash": 200,
    "src/ingest/segment.ts": 110,
    gc: 50,
    "native, sync to disk": 30,
  });
  expect(sums.modules.map(({ module }) => module)[0]).toBe("node:internal/crypto/hash");
  expect(sums).toMatchObject({ busyMicros: 390, idleMicros: 400 });
});

test("threads are summed apart and together", () => {
  const other = profileOf([2, 3], [0, 70], 1100);
  const sums = sumProfiles(
    [
      { thread: "server, main", profile },
      { thread: "engine, others", profile: other },
      { thread: "engine, others", profile: other },
    ],
    [],
    root,
  );
  expect(Object.fromEntries(sums.threads)).toEqual({
    "server, main": { busyMicros: 390, idleMicros: 400 },
    "engine, others": { busyMicros: 140, idleMicros: 60 },
  });
  const share = sums.modules.find(({ module }) => module === "src/ingest/segment.ts");
  expect(share?.micros).toBe(250);
  expect(Object.fromEntries(share?.byThread ?? [])).toEqual({ "server, main": 110, "engine, others": 140 });
  expect(sums.root.micros).toBe(sums.busyMicros);
});

test("what lies outside of the spans that were measured does not count", () => {
  const spans = [
    { from: 1060, to: 1120 },
    { from: 1700, to: 1735 },
  ];
  const sums = sumProfiles([{ thread: "server, main", profile }], spans, root);
  expect(micros(sums.modules)).toEqual({ "src/ingest/segment.ts": 50, "node:internal/crypto/hash": 10, gc: 25 });
  expect(sums.idleMicros).toBe(10);
});

test("a thread that waits for tasks outside of its event loop is idle", () => {
  const url = "file:///project/node_modules/piscina/dist/worker.js";
  const waits: CpuProfile = {
    ...profileOf([2], [0], 1500),
    nodes: [
      { id: 1, callFrame: { functionName: "(root)", url: "", lineNumber: 0 }, children: [2] },
      { id: 2, callFrame: { functionName: "atomicsWaitLoop", url, lineNumber: 1 } },
    ],
  };
  expect(sumProfiles([{ thread: "t", profile: waits }], [], root)).toMatchObject({ busyMicros: 0, idleMicros: 500 });
});

interface Box {
  readonly title: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/** The boxes of a drawing, once every tag in it has been found to close and every text to be escaped. */
function boxesOf(svg: string): Box[] {
  const open: string[] = [];
  let rest = svg;
  while (rest !== "") {
    const part =
      /^(?:<(?<close>\/?)(?<name>[a-z]+)(?:\s+[\w:]+="[^"<&]*")*\s*(?<empty>\/?)>|(?:[^<&]|&(?:amp|lt|gt|quot);)+)/u.exec(
        rest,
      );
    if (part === null) {
      throw new Error(`not XML: ${rest.slice(0, 80)}`);
    }
    const { close, name, empty } = part.groups ?? {};
    if (name !== undefined && close === "/") {
      if (open.pop() !== name) {
        throw new Error(`</${name}> closes something else`);
      }
    } else if (name !== undefined && empty === "") {
      open.push(name);
    }
    rest = rest.slice(part[0].length);
  }
  expect(open).toEqual([]);
  const pattern = /<title>([^<]*)<\/title><rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"/gu;
  return [...svg.matchAll(pattern)].map(([, title = "", x, y, width]) => ({
    title,
    x: Number(x),
    y: Number(y),
    width: Number(width),
  }));
}

test("the flame graph is XML, and callees lie below their callers and fill what they took", () => {
  const sums = sumProfiles(
    [
      { thread: "server, main", profile },
      { thread: "engine, others", profile: profileOf([2, 6], [0, 90], 1100) },
    ],
    [],
    root,
  );
  const svg = flameGraph(sums.root, 'a <title> & "more"');
  const boxes = boxesOf(svg);
  expect(svg.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  expect(boxes[0]?.title).toContain("100.00%");
  const [all] = boxes;
  const perMicro = (all?.width ?? 0) / sums.root.micros;
  const queue: { frame: Frame; box: Box }[] = [{ frame: sums.root, box: all as Box }];
  let seen = 0;
  for (const { frame, box } of queue) {
    seen++;
    expect(box.width).toBeCloseTo(frame.micros * perMicro, 1);
    const inside = boxes.filter(
      (one) => one.y === box.y + 17 && one.x >= box.x - 0.01 && one.x + one.width <= box.x + box.width + 0.02,
    );
    const callees = [...frame.callees.values()].toSorted((a, b) => b.micros - a.micros);
    expect(inside).toHaveLength(callees.length);
    const width = inside.reduce((sum, one) => sum + one.width, 0);
    expect(width).toBeCloseTo(callees.reduce((sum, one) => sum + one.micros, 0) * perMicro, 1);
    for (const [i, callee] of callees.entries()) {
      queue.push({ frame: callee, box: inside[i] as Box });
    }
  }
  expect(seen).toBe(boxes.length);
});
