/**
 * The DuckDB of one thread: one instance at a time. After an error that it did not foresee DuckDB refuses everything
 * ("database has been invalidated"), so the thread goes on with another instance; the old one is closed when
 * the last of its queries has ended.
 */
import { mkdir } from "node:fs/promises";
import path from "node:path";

import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";

import {
  connectEngine,
  type ConnectionSource,
  createConnectionSource,
  type EngineOptions,
  openEngine,
} from "./engine.js";
import { createMemoryWatch, type MemoryWatch } from "./memory-watch.js";
import { isFatal } from "./scrub.js";

/** An instance and what belongs to it. */
export class Engine {
  readonly connections: ConnectionSource;
  readonly memory: MemoryWatch;
  /** The connection that inspects, when it is not in use; one after an error is not used again. */
  inspector: DuckDBConnection | null = null;
  /** Queries and inspections that use it. */
  users = 0;
  readonly #instance: DuckDBInstance;

  /** Opens an instance, which spills into a directory of its own: two in one would overwrite each other's files. */
  static async open(o: EngineOptions, name: string): Promise<Engine> {
    const tempDirectory = path.join(o.tempDirectory, name);
    await mkdir(tempDirectory, { recursive: true });
    return new Engine(await openEngine({ ...o, tempDirectory }));
  }

  private constructor(instance: DuckDBInstance) {
    this.#instance = instance;
    this.connections = createConnectionSource(instance);
    this.memory = createMemoryWatch(instance);
  }

  connect(): Promise<DuckDBConnection> {
    return connectEngine(this.#instance);
  }

  /** Never while a call is in progress: that would take the process down. */
  async close(): Promise<void> {
    await this.memory.settled();
    await this.connections.close();
    this.inspector?.closeSync();
    this.inspector = null;
    this.#instance.closeSync();
  }
}

/** The instances of one thread. */
export class Engines {
  readonly #open: () => Promise<Engine>;
  #current: Engine;
  #replacing: Promise<void> | null = null;

  /** @param name of the thread, in the names of directories */
  static async start(o: EngineOptions, name: string): Promise<Engines> {
    let opened = 0;
    const open = (): Promise<Engine> => Engine.open(o, `${name}-${++opened}`);
    return new Engines(open, await open());
  }

  private constructor(open: () => Promise<Engine>, first: Engine) {
    this.#open = open;
    this.#current = first;
  }

  /** Runs something that uses the present instance. */
  async use<T>(body: (engine: Engine) => Promise<T>): Promise<T> {
    const engine = this.#current;
    engine.users++;
    try {
      return await body(engine);
    } finally {
      engine.users--;
      if (engine !== this.#current && engine.users === 0) await engine.close();
    }
  }

  /** Told about every error: after one that leaves an instance unusable, who comes next uses another. */
  async failed(engine: Engine, error: unknown): Promise<void> {
    if (!isFatal(error) || engine !== this.#current) return;
    this.#replacing ??= this.#replace().finally(() => {
      this.#replacing = null;
    });
    await this.#replacing;
  }

  async #replace(): Promise<void> {
    this.#current = await this.#open();
  }

  /** Closes the present instance; nothing uses it any more. */
  close(): Promise<void> {
    return this.#current.close();
  }
}
