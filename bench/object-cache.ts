/**
 * `pnpm bench object-cache [--rounds 5] [--connections 4] [--driver uws|node] [--save NAME]`
 *
 * `object-cache-srv` as a process of its own, before a directory, asked over loopback for what it has in memory.
 * hit: the time of one request for 4 KiB after another. stream: bytes a second of whole objects of 64 MiB, over some
 * connections at a time. CPU seconds a GiB are the server's. bare: the same bytes from a process that does nothing but
 * write them to a socket, in turns with the cache, so that a busy machine slows both. Before anything is measured the
 * bench makes sure that what comes is what was stored; after it, that every block came from memory. Otherwise it prints
 * no figure.
 */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { cpus, loadavg, tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import {
  atLeast,
  atMost,
  type Figure,
  figure,
  type FigureRow,
  median,
  medianRatio,
  quantile,
  repeat,
  round,
} from "./figures.js";
import { processCpuSeconds } from "../src/engine/process-cpu.js";
import { describeEnvironment } from "./run/machine.js";
import { type Program, startNode, startProgram } from "./run/program.js";
import { saveResults } from "./run/results.js";
import { count, readOptions, text, word } from "./run/options.js";
import { printTable } from "./run/table.js";

const key = randomBytes(24).toString("hex");
const object = "log_entries/audience=public/2026-11-22/bench.l2.parquet";
const objectBytes = 64 << 20;
const hitBytes = 4096;
const receiveBytes = 1 << 20;
const roundMs = 1000;
const maxHitMs = 1;
const minBytesPerSecond = 1e9;

/** Runs it. @throws Error when the server answers something else, or not from memory */
export async function benchObjectCache(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rounds: count(5, "rounds"),
    connections: count(4, "connections of a stream"),
    driver: word(["uws", "node"], "uws", "HTTP driver of the server"),
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("object-cache", "the object cache over loopback", options, argv);
  const { rounds, connections } = values;
  const directory = tmpdir();
  const content = randomBytes(objectBytes);
  const file = path.join(directory, "lake", object);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, content);
  const server = await startServer(directory, values.driver);
  const bare = await startBare();
  try {
    await assertSame(server.url, content);
    const before = await blocksFromElsewhere(server.url);
    const measured = await repeat(rounds, async () => {
      const hits = await measureHits(server.url);
      const cpuBefore = processCpuSeconds(server.pid);
      const cache = await measureStream(server.url, connections);
      const cpuSeconds = processCpuSeconds(server.pid) - cpuBefore;
      return { hits, cache, cpuSeconds, yardstick: await measureStream(bare.url, connections) };
    });
    if ((await blocksFromElsewhere(server.url)) !== before) {
      throw new Error("not every block came from memory: nothing was measured");
    }
    await assertSame(server.url, content);
    const hits = measured.flatMap((round) => round.hits);
    const speeds = measured.map(({ cache }) => cache.bytes / cache.seconds);
    const yardsticks = measured.map(({ yardstick }) => yardstick.bytes / yardstick.seconds);
    const cpuPerGiB = measured.map(({ cpuSeconds, cache }) => cpuSeconds / (cache.bytes / 2 ** 30));
    const rows: FigureRow[] = [
      judged(
        `hit of ${hitBytes} bytes, p50 ms`,
        quantile(hits, 0.5),
        `at most ${maxHitMs}`,
        quantile(hits, 0.5) <= maxHitMs,
      ),
      plain("  p99 ms", quantile(hits, 0.99)),
      plain("  requests", hits.length),
      judged(
        `stream over ${connections} connections, GB/s`,
        median(speeds) / 1e9,
        `at least ${minBytesPerSecond / 1e9}`,
        median(speeds) >= minBytesPerSecond,
      ),
      plain("  bare, GB/s", median(yardsticks) / 1e9),
      plain("  stream against bare", medianRatio(speeds, yardsticks)),
      plain("  CPU s of the server a GiB", median(cpuPerGiB)),
      plain("load of the machine, processes a core", (loadavg()[0] ?? 0) / cpus().length),
    ];
    printTable(`object cache, driver ${values.driver}, from memory over loopback`, rows);
    if (values.save !== undefined) {
      saveResults(values.save, {
        environment: describeEnvironment(),
        rounds,
        connections,
        driver: values.driver,
        rows,
      });
    }
    const hitRounds = measured.map((one) => quantile(one.hits, 0.5));
    return [
      figure(`hit of ${hitBytes} bytes, p50`, "ms", hitRounds, atMost(maxHitMs)),
      figure(
        "stream",
        "GB/s",
        speeds.map((speed) => speed / 1e9),
        atLeast(minBytesPerSecond / 1e9),
      ),
      figure("stream, of a bare socket's speed", "times", medianRatio(speeds, yardsticks)),
      figure("stream, CPU of the server", "s/GiB", cpuPerGiB),
    ];
  } finally {
    await server.stop();
    await bare.stop();
  }
}

function plain(what: string, figure: number): FigureRow {
  return { what, figure: round(figure, 3), target: "", holds: "" };
}

function judged(what: string, figure: number, target: string, holds: boolean): FigureRow {
  return { ...plain(what, figure), target, holds: holds ? "yes" : "NO" };
}

interface Peer extends Program {
  readonly url: string;
}

const until = /object cache on (http:\S+?)"/u;
const withUrl = (program: Program): Peer => ({ ...program, url: program.said[1] ?? "" });

async function startServer(directory: string, driver: string): Promise<Peer> {
  const environment = {
    SVC_API_KEYS: JSON.stringify([{ name: "bench", key }]),
    SVC_OBJECT_CACHE_LISTEN: "127.0.0.1:0",
    SVC_OBJECT_STORE_URI: pathToFileURL(path.join(directory, "lake")).href,
    SVC_DATA_DIR: directory,
    SVC_HTTP_DRIVER: driver,
  };
  return withUrl(await startProgram("object-cache-srv", { environment, until }));
}

/** Answers every request with as many bytes as an object has, without looking at it. */
async function startBare(): Promise<Peer> {
  const program = `
    const bytes = Buffer.alloc(${objectBytes}, 1);
    const head = "HTTP/1.1 206 Partial Content\\r\\nContent-Length: ${objectBytes}\\r\\n\\r\\n";
    const server = require("node:net").createServer({ noDelay: true }, (socket) => {
      socket.on("error", () => undefined);
      socket.on("data", () => {
        socket.write(head);
        socket.write(bytes);
      });
    });
    server.listen(0, "127.0.0.1", () => {
      process.stdout.write('object cache on http://127.0.0.1:' + server.address().port + '"');
    });`;
  return withUrl(await startNode("the bare server", ["--eval", program], { environment: {}, until }));
}

/** Reads the whole object with `fetch`, which also brings it into memory. */
async function assertSame(url: string, content: Uint8Array): Promise<void> {
  const response = await fetch(`${url}/obj/${object}`, { headers: { authorization: `Bearer ${key}` } });
  const bytes = Buffer.from(await response.arrayBuffer());
  const hashOf = (of: Uint8Array): string => createHash("sha256").update(of).digest("hex");
  if (response.status !== 200 || hashOf(bytes) !== hashOf(content)) {
    throw new Error(`the object cache answered ${response.status} with other bytes than were stored`);
  }
}

async function blocksFromElsewhere(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = Array.from(text.matchAll(/^object_cache_blocks_total\{from="(\w+)"\} (\d+)$/gmu));
  return found.reduce((sum, [, from, n]) => (from === "memory" ? sum : sum + Number(n)), 0);
}

/**
 * A connection that reads into one buffer and counts. A client that keeps what it receives would measure itself.
 */
class Connection {
  readonly #socket: Socket;
  #wanted = 0;
  #received = 0;
  #head = "";
  #expected = 0;
  #done: ((error: Error | null) => void) | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static async open(url: string): Promise<Connection> {
    const { hostname, port } = new URL(url);
    const holder: { connection: Connection | null } = { connection: null };
    const buffer = Buffer.allocUnsafeSlow(receiveBytes);
    const socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer,
        callback: (length) => {
          holder.connection?.receive(buffer.subarray(0, length));
          return true;
        },
      },
    });
    await once(socket, "connect");
    holder.connection = new Connection(socket);
    return holder.connection;
  }

  /** Reads bytes `start` to `start + length`; resolves with the last of them. */
  async get(start: number, length: number): Promise<void> {
    this.#wanted = length;
    this.#received = 0;
    this.#head = "";
    this.#expected = -1;
    const done = new Promise<void>((resolve, reject) => {
      this.#done = (error) => {
        if (error === null) {
          resolve();
        } else {
          reject(error);
        }
      };
    });
    this.#socket.write(
      `GET /obj/${object} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\nRange: bytes=${start}-${start + length - 1}\r\n\r\n`,
    );
    await done;
  }

  receive(bytes: Buffer): void {
    let body = bytes.length;
    if (this.#expected === -1) {
      const text = bytes.toString("latin1", 0, Math.min(bytes.length, 4096));
      const end = text.indexOf("\r\n\r\n");
      this.#head += end === -1 ? text : text.slice(0, end);
      if (end === -1) {
        return;
      }
      this.#expected = Number(/^content-length: (\d+)$/imu.exec(this.#head.replaceAll("\r", ""))?.[1] ?? "-2");
      if (!this.#head.startsWith("HTTP/1.1 206 ") || this.#expected !== this.#wanted) {
        this.#done?.(new Error(`the object cache answered ${this.#head.split("\r\n")[0]}`));
        return;
      }
      body = bytes.length - end - 4;
    }
    this.#received += body;
    if (this.#received >= this.#expected) {
      this.#done?.(this.#received === this.#expected ? null : new Error("the object cache sent too much"));
    }
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** Milliseconds of requests one after the other, at places all over the object. */
async function measureHits(url: string): Promise<number[]> {
  const connection = await Connection.open(url);
  const times: number[] = [];
  try {
    const endMs = performance.now() + roundMs;
    for (let i = 0; performance.now() < endMs; i++) {
      const start = (i * 7_654_321) % (objectBytes - hitBytes);
      const beganMs = performance.now();
      await connection.get(start, hitBytes);
      times.push(performance.now() - beganMs);
    }
  } finally {
    connection.close();
  }
  return times;
}

/** Whole objects that were received to their end. */
async function measureStream(
  url: string,
  connections: number,
): Promise<{ readonly bytes: number; readonly seconds: number }> {
  const open = await Promise.all(Array.from({ length: connections }, () => Connection.open(url)));
  const beganMs = performance.now();
  let bytes = 0;
  try {
    await Promise.all(
      open.map(async (connection) => {
        while (performance.now() < beganMs + roundMs) {
          await connection.get(0, objectBytes);
          bytes += objectBytes;
        }
      }),
    );
    return { bytes, seconds: (performance.now() - beganMs) / 1000 };
  } finally {
    for (const connection of open) {
      connection.close();
    }
  }
}
