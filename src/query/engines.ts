/**
 * The DuckDB of one thread: one instance at a time. After an error that it did not foresee DuckDB refuses everything
 * ("database has been invalidated"), and a step that does not come to its end keeps the instance's threads; the
 * thread goes on with another instance then. The old one is closed when nothing uses it any more.
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
  /** What uses it: queries, inspections, and what DuckDB has not let go of. */
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
  #alive = 1;
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
    return this.hold(engine, () => body(engine));
  }

  /** Runs something during which an instance is not closed. */
  async hold<T>(engine: Engine, body: () => Promise<T>): Promise<T> {
    engine.users++;
    try {
      return await body();
    } finally {
      engine.users--;
      if (engine !== this.#current && engine.users === 0) {
        this.#alive--;
        await engine.close();
      }
    }
  }

  /** Told about every error: after one that leaves an instance unusable, who comes next uses another. */
  async failed(engine: Engine, error: unknown): Promise<void> {
    if (isFatal(error)) await this.#replace(engine);
  }

  /**
   * Told that DuckDB does not let go of a query: the next ones use another instance, beside one old one at most.
   * @throws DuckDB's error when it cannot be opened; the present one stays then
   */
  async stuck(engine: Engine): Promise<void> {
    if (this.#alive <= 1) await this.#replace(engine);
  }

  async #replace(engine: Engine): Promise<void> {
    if (engine !== this.#current) return;
    this.#replacing ??= this.#openNext().finally(() => {
      this.#replacing = null;
    });
    await this.#replacing;
  }

  async #openNext(): Promise<void> {
    this.#current = await this.#open();
    this.#alive++;
  }

  /** Closes the present instance; nothing uses it any more. */
  close(): Promise<void> {
    return this.#current.close();
  }
}
