/**
 * Connections to the analytics servers that queries of the web application go to: one each, made by the first query, and
 * closed when the list of data sources names its address no longer and nobody uses it.
 */
import { type FlightCalls, openFlightCalls } from "telemetry-service-client/flight/flight-calls";
import type { AdminService } from "../../../admin/admin-service.js";
import { ServiceError, toServiceError } from "../../../runtime/errors.js";
import { builtInSource } from "../../../wire/web/app-api.js";

/** A data source to query. */
export interface OpenSource {
  readonly name: string;
  readonly calls: FlightCalls;
  /** Has to be called, once, when no call goes on and none will follow. */
  readonly release: () => void;
}

interface Connection {
  readonly calls: FlightCalls;
  users: number;
}

/** Options of {@link DataSources}. */
export interface DataSourcesOptions {
  /** Address of the built-in one; null while it is not known yet. */
  readonly builtIn: () => string | null;
  /** Knows the others; null without a database. */
  readonly admin: Pick<AdminService, "sources"> | null;
  readonly monotonicMs: () => number;
}

type Rows = Awaited<ReturnType<AdminService["sources"]>>;

/** How long the list is used; another server may have changed it. */
const freshMs = 5000;

/** See the head of the file. */
export class DataSources {
  readonly #o: DataSourcesOptions;
  /** By address: callers share a connection, each call carries its caller's token. */
  readonly #open = new Map<string, Connection>();
  /** Addresses in the list when it was last read; null before. */
  #named: ReadonlySet<string> | null = null;
  #known: { readonly rows: Promise<Rows>; readonly atMs: number } | null = null;

  constructor(o: DataSourcesOptions) {
    this.#o = o;
  }

  /**
   * @param name undefined: the default one
   * @throws ServiceError NOT_FOUND for an unknown name, UNAVAILABLE while the server is starting or cannot tell.
   */
  async open(name: string | undefined): Promise<OpenSource> {
    const rows = name === builtInSource ? [] : await this.#rows();
    const row = rows.find((known) => (name === undefined ? known.is_default : known.name === name));
    if (row !== undefined) {
      return this.#use(row.name, row.uri);
    }
    if (name !== undefined && name !== builtInSource) {
      throw new ServiceError("NOT_FOUND", "there is no data source of that name");
    }
    return this.openBuiltIn();
  }

  /** @throws ServiceError UNAVAILABLE while it is starting. */
  openBuiltIn(): OpenSource {
    const uri = this.#o.builtIn();
    if (uri === null) {
      throw new ServiceError("UNAVAILABLE", "the analytics server is starting; try again", { retryAfterSeconds: 1 });
    }
    return this.#use(builtInSource, uri);
  }

  /** The list was changed. */
  forget(): void {
    this.#known = null;
  }

  stop(): void {
    for (const { calls } of this.#open.values()) {
      calls.close();
    }
    this.#open.clear();
  }

  async #rows(): Promise<Rows> {
    const { admin, monotonicMs } = this.#o;
    if (admin === null) {
      return [];
    }
    if (this.#known === null || monotonicMs() - this.#known.atMs > freshMs) {
      this.#known = { rows: this.#read(admin), atMs: monotonicMs() };
    }
    const { rows } = this.#known;
    try {
      return await rows;
    } catch (error) {
      this.forget();
      // No table may be made, so there is no other source.
      if (toServiceError(error).code === "NOT_CONFIGURED") {
        return [];
      }
      throw error;
    }
  }

  async #read(admin: Pick<AdminService, "sources">): Promise<Rows> {
    const rows = await admin.sources();
    this.#named = new Set(rows.map(({ uri }) => uri));
    for (const uri of this.#open.keys()) {
      this.#closeUnused(uri);
    }
    return rows;
  }

  #use(name: string, uri: string): OpenSource {
    const connection = this.#open.get(uri) ?? this.#connect(uri);
    connection.users++;
    return {
      name,
      calls: connection.calls,
      release: () => {
        connection.users--;
        this.#closeUnused(uri);
      },
    };
  }

  #connect(uri: string): Connection {
    const connection = { calls: openFlightCalls({ uri, clientName: "telemetry-web" }), users: 0 };
    this.#open.set(uri, connection);
    return connection;
  }

  /** Closes a connection that nobody uses and no data source names. */
  #closeUnused(uri: string): void {
    const connection = this.#open.get(uri);
    if (connection?.users === 0 && this.#named?.has(uri) === false && uri !== this.#o.builtIn()) {
      this.#open.delete(uri);
      connection.calls.close();
    }
  }
}
