/** A directory with objects, and the object cache before it as a process of its own. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { type ServerProcess, startServerProcess } from "../servers/server-process.js";

/** How a process says where it listens. */
export const cacheAnnouncement = /object cache on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u;

export const cacheKey = "key-of-the-object-cache-0123456789";

export interface CacheWorld {
  readonly directory: string;
  /** Of objects. */
  readonly lake: string;
  /** What the process is started with. */
  readonly environment: Record<string, string>;
  /** Starts `object-cache-srv`; `remove` ends it. */
  start(more?: Record<string, string>): Promise<ServerProcess>;
  /** Makes an object of random bytes. */
  add(key: string, bytes: number): Promise<Buffer>;
  /** Files of blocks. */
  blocks(): Promise<string[]>;
  remove(): Promise<void>;
}

export async function createCacheWorld(): Promise<CacheWorld> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-object-cache-"));
  const lake = path.join(directory, "lake");
  await mkdir(lake);
  const started: ServerProcess[] = [];
  const environment = {
    SVC_API_KEYS: JSON.stringify([
      { name: "other", key: "key-of-somebody-else-0123456789" },
      { name: "flight", key: cacheKey },
    ]),
    SVC_OBJECT_CACHE_LISTEN: "127.0.0.1:0",
    SVC_OBJECT_STORE_URI: pathToFileURL(lake).href,
    SVC_DATA_DIR: path.join(directory, "data"),
  };
  return {
    directory,
    lake,
    environment,
    async start(more = {}) {
      const server = await startServerProcess("object-cache-srv", { ...environment, ...more }, cacheAnnouncement);
      started.push(server);
      return server;
    },
    async add(key, bytes) {
      const content = randomBytes(bytes);
      const file = path.join(lake, key);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, content);
      return content;
    },
    async blocks() {
      const root = path.join(directory, "data", "object-cache", "blocks");
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
    },
    async remove() {
      for (const server of started) {
        await server.end("SIGKILL");
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** `GET` with the key, as everybody's `fetch` does it. */
export function getObject(url: string, key: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${url}/obj/${key}`, { headers: { authorization: `Bearer ${cacheKey}`, ...headers } });
}

/** A metric of a server; 0 when there is none. */
export async function metricOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length) ?? 0,
  );
}
