/**
 * `pnpm bench web-app [--rows 1000000] [--logs 1000000] [--spans 20000] [--rounds 5] [--save NAME]`
 *
 * The web application in headless Chromium on a monolith in development mode: bytes of the shell, time until its first
 * page can be used, time from the server's first rows to those rows on the screen, memory of the page with a large
 * result of 8 columns, and frames while that, a list of log records and a waterfall scroll, with what each frame costs
 * the page's thread. A proxy before the server notes when rows were sent.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BrowserContext, Page } from "playwright-core";

import { type RunningApp, startApp } from "../../test/helpers/web/app-browser.js";
import { until } from "../../test/helpers/until.js";
import {
  atLeast,
  atMost,
  CannotMeasure,
  type Figure,
  figure,
  type FigureRow,
  median,
  noLimit,
  repeat,
  round,
} from "../figures.js";
import { describeEnvironment } from "../run/machine.js";
import { saveResults } from "../run/results.js";
import { count, readOptions, text } from "../run/options.js";
import { printTable } from "../run/table.js";
import { scrollFigures } from "./web-scroll.js";

const dist = fileURLToPath(new URL("../../../web/dist", import.meta.url));

/** Marks in the page: when the navigation and the first cell of a table were there, in milliseconds since the epoch. */
const marks = `
  globalThis.marks = {};
  const look = () => {
    for (const [name, selector] of [["shell", "nav a"], ["editor", "main button"], ["cell", "[role=gridcell]"]]) {
      if (!(name in marks) && document.querySelector(selector) !== null) {
        marks[name] = performance.timeOrigin + performance.now();
      }
    }
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
`;

/** Entry point of the command. */
export async function benchWebApp(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rows: count(1_000_000, "rows of a large result"),
    logs: count(1_000_000, "log records of a long list"),
    spans: count(20_000, "spans of a long trace"),
    rounds: count(5, "first pages and first rows"),
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("web-app", "the web application in a headless browser", options, argv);
  const { rows, rounds } = values;
  if (!existsSync(join(dist, "index.html"))) {
    throw new CannotMeasure("the web application is not built (web/dist has no index.html)");
  }
  const app = await startApp({ traces: 400, webGl: false });
  const proxy = await startProxy(app.url);
  try {
    const figures: FigureRow[] = [
      ...shellBytes(),
      ...(await firstPage(app, rounds)),
      ...(await firstRows(app, proxy, rounds)),
      ...(await largeResult(app, rows)),
      ...(await longLists(app, values.logs, values.spans)),
    ];
    printTable("web application", figures);
    if (values.save !== undefined) {
      saveResults(values.save, { environment: describeEnvironment(), rows, rounds, figures });
    }
    return figures.map((row) => {
      const [, most] = /^<= (\d+)$/u.exec(String(row["target"])) ?? [];
      const [, least] = /^>= (\d+)$/u.exec(String(row["target"])) ?? [];
      const isSmall = String(row["figure"]).includes("memory of the page") && rows < 1_000_000;
      const bound =
        most === undefined ? (least === undefined ? undefined : atLeast(Number(least))) : atMost(Number(most));
      return figure(
        String(row["figure"]),
        String(row["unit"]),
        Number(row["value"]),
        isSmall ? noLimit("target is for a million rows") : bound,
      );
    });
  } finally {
    await proxy.stop();
    await app.stop();
  }
}

/** What a browser loads before it knows which page is wanted. */
function shellBytes(): FigureRow[] {
  const page = readFileSync(join(dist, "index.html"), "utf8");
  // The server sends what the build did not compress as it is.
  const compressed = (name: string): number =>
    (statSync(join(dist, `${name}.br`), { throwIfNoEntry: false }) ?? statSync(join(dist, name))).size;
  const named = [...page.matchAll(/(?:src|href)="\.\/(assets\/[^"]+\.(js|css))"/g)];
  const bytes = (kind: string): number =>
    named.filter(([, , ending]) => ending === kind).reduce((sum, [, name = ""]) => sum + compressed(name), 0);
  const all = readdirSync(join(dist, "assets")).filter((name) => name.endsWith(".js"));
  return [
    { figure: "shell.script (compressed)", value: round(bytes("js") / 1024, 1), unit: "KiB", target: "<= 250" },
    { figure: "shell.style (compressed)", value: round(bytes("css") / 1024, 1), unit: "KiB", target: "" },
    {
      figure: "all scripts (compressed)",
      value: round(all.reduce((sum, name) => sum + compressed(`assets/${name}`), 0) / 1024, 1),
      unit: "KiB",
      target: "",
    },
  ];
}

/** From the begin of the navigation until the page's own controls are there, with an empty cache and with a full one. */
async function firstPage(app: RunningApp, rounds: number): Promise<FigureRow[]> {
  const cold: number[] = [];
  const warm: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const page = await app.open("/auth/me");
    await page.addInitScript(marks);
    cold.push(await loadMs(page, app.url));
    warm.push(await loadMs(page, app.url));
    await app.endTest();
  }
  return [
    { figure: "first page usable, empty cache", value: Math.round(median(cold)), unit: "ms", target: "<= 1000" },
    { figure: "first page usable, full cache", value: Math.round(median(warm)), unit: "ms", target: "" },
  ];
}

async function loadMs(page: Page, url: string): Promise<number> {
  await page.goto(`${url}/sql`);
  await until(() => page.evaluate<boolean>("'editor' in marks"));
  return Number(await page.evaluate("marks.editor - performance.timeOrigin"));
}

interface Proxy {
  readonly url: string;
  /** When the first rows of the latest query went out, in milliseconds since the epoch. */
  readonly sentMs: () => number;
  stop(): Promise<void>;
}

/** Passes everything on and looks for the first frame of rows of a query. */
async function startProxy(target: string): Promise<Proxy> {
  let sent = Number.NaN;
  const { hostname, port, origin, host } = new URL(target);
  const server: Server = createServer((from, to) => {
    const headers = { ...from.headers, host, ...(from.headers.origin === undefined ? {} : { origin }) };
    const onward = httpRequest({ hostname, port, path: from.url, method: from.method, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      let parts = 0;
      answer.on("data", (part: Buffer) => {
        // The schema is the first part, what follows are rows.
        parts++;
        if (from.url?.startsWith("/api/query") === true && (parts > 1 || part.length > 4096)) {
          sent = Number.isNaN(sent) ? performance.timeOrigin + performance.now() : sent;
        }
        to.write(part);
      });
      answer.on("end", () => to.end());
    });
    from.pipe(onward);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sentMs: () => {
      const at = sent;
      sent = Number.NaN;
      return at;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** From the moment at which the server sent rows until one is in the page. */
async function firstRows(app: RunningApp, proxy: Proxy, rounds: number): Promise<FigureRow[]> {
  const delays = await repeat(rounds, async () => {
    const page = await app.open("/auth/me");
    await page.addInitScript(marks);
    const sql = "SELECT time, service_name, level_name, msg, properties FROM log_entries ORDER BY time DESC";
    await page.goto(`${proxy.url}/sql?${new URLSearchParams({ sql }).toString()}`);
    await page.getByRole("button", { name: "Run" }).waitFor();
    proxy.sentMs();
    await page.getByRole("button", { name: "Run" }).click();
    await until(() => page.evaluate<boolean>("'cell' in marks"));
    const delay = Number(await page.evaluate("marks.cell")) - proxy.sentMs();
    await app.endTest();
    return delay;
  });
  return [
    { figure: "rows sent to rows on screen, p50", value: Math.round(median(delays)), unit: "ms", target: "<= 100" },
  ];
}

/** A million rows: what the page holds for them, and how it scrolls through them. */
async function largeResult(app: RunningApp, rows: number): Promise<FigureRow[]> {
  const sql = `SELECT TIMESTAMP_NS '2026-01-01' + to_milliseconds(i) AS time, 'service-' || (i % 20) AS service,
  i % 6 AS level, 'GET /products/' || i || ' answered 200 in ' || (i % 900) || ' ms' AS msg, md5(i::VARCHAR) AS trace_id,
  i AS n, i / 7.0::DOUBLE AS ratio, i % 3 = 0 AS flag
FROM range(${rows}) t(i)`;
  const page = await app.open(`/sql?${new URLSearchParams({ sql, limit: "1000000" }).toString()}`);
  await page.getByRole("button", { name: "Run" }).waitFor();
  const before = await pageBytes(page.context(), page);
  const startMs = performance.now();
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/rows?, .* in/).waitFor({ timeout: 120_000 });
  const tookMs = performance.now() - startMs;
  const after = await pageBytes(page.context(), page);
  const frames = await scrollFigures(app.browser, page, '[role=grid][aria-label="Result"]', "table of the result");
  await app.endTest();
  return [
    { figure: `result of ${rows} rows, 8 columns: time`, value: Math.round(tookMs), unit: "ms", target: "" },
    { figure: "memory of the page with it", value: round(after / 2 ** 20, 1), unit: "MiB", target: "<= 250" },
    { figure: "of which for the result", value: round((after - before) / 2 ** 20, 1), unit: "MiB", target: "" },
    ...frames,
  ];
}

/** JavaScript's heap and the memory of arrays, after a collection; of the page and its worker, which share a process. */
async function pageBytes(context: BrowserContext, page: Page): Promise<number> {
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize = 0 } = (await session.send("Runtime.getHeapUsage")) as {
    readonly usedSize: number;
    readonly backingStorageSize?: number;
  };
  await session.detach();
  return usedSize + backingStorageSize;
}

/** The list of the log records and the waterfall of one trace, with as many rows as asked for. */
async function longLists(app: RunningApp, logs: number, spans: number): Promise<FigureRow[]> {
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const resource = { attributes: [{ key: "service.name", value: { stringValue: "bench" } }] };
  for (let from = 0; from < logs; from += 10_000) {
    const logRecords = Array.from({ length: Math.min(10_000, logs - from) }, (_, i) => ({
      timeUnixNano: String(nowNs - BigInt(from + i) * 1_000_000n),
      severityNumber: 1 + (i % 24),
      body: { stringValue: `GET /products/${from + i} answered 200 in ${i % 900} ms` },
    }));
    await app.send("/v1/logs", { resourceLogs: [{ resource, scopeLogs: [{ scope: {}, logRecords }] }] });
  }
  const traceId = "b".repeat(32);
  const spanId = (i: number): string => (i + 1).toString(16).padStart(16, "0");
  for (let from = 0; from < spans; from += 5000) {
    const part = Array.from({ length: Math.min(5000, spans - from) }, (_, i) => ({
      traceId,
      spanId: spanId(from + i),
      ...(from + i === 0 ? {} : { parentSpanId: spanId((from + i - 1) >> 1) }),
      name: `step ${from + i}`,
      startTimeUnixNano: String(nowNs - 60_000_000_000n + BigInt(from + i) * 1_000_000n),
      endTimeUnixNano: String(nowNs - 60_000_000_000n + BigInt(from + i) * 1_000_000n + 30_000_000_000n),
    }));
    await app.send("/v1/traces", { resourceSpans: [{ resource, scopeSpans: [{ scope: {}, spans: part }] }] });
  }
  const list = await app.open(`/logs?limit=1000000&filter=service_name%3Dbench`);
  const records = '[role=grid][aria-label="Log records"]';
  await until(
    () => list.evaluate<boolean>(`document.querySelector('${records}')?.ariaRowCount === "${logs + 1}"`),
    120_000,
  );
  const listFigures = await scrollFigures(app.browser, list, records, `list of ${logs} log records`);
  await app.endTest();
  const trace = await app.open(`/traces/${traceId}`);
  const tree = '[role=treegrid][aria-label="Spans"]';
  await until(() => trace.evaluate<boolean>(`document.querySelector('${tree}')?.ariaRowCount === "${spans}"`), 120_000);
  const traceFigures = await scrollFigures(app.browser, trace, tree, `waterfall of ${spans} spans`);
  await app.endTest();
  return [...listFigures, ...traceFigures];
}
