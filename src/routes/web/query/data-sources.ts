/**
 * Connections to the analytics servers that queries of the web application go to: one each, made by the first query, and
 * more while many go on. They are closed when nobody uses them, the last one when the list of data sources names its
 * address no longer.
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
interface DataSourcesOptions {
  /** Address of the built-in one; null while it is not known yet. */
  readonly builtIn: () => string | null;
  /** Knows the others; null without a database. */
  readonly admin: Pick<AdminService, "sources"> | null;
  readonly monotonicMs: () => number;
}

type Rows = Awaited<ReturnType<AdminService["sources"]>>;

/** Users of a connection; each has a call or two, and servers take a hundred calls of a connection at a time. */
const mostUsers = 45;
/** How long the list is used; another server may have changed it. */
const freshMs = 5000;

/** See the head of the file. */
export class DataSources {
  readonly #o: DataSourcesOptions;
  /** By address: callers share connections, each call carries its caller's token. */
  readonly #open = new Map<string, readonly Connection[]>();
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
    for (const { calls } of [...this.#open.values()].flat()) {
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
    const connection = this.#open.get(uri)?.find(({ users }) => users < mostUsers) ?? this.#connect(uri);
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
    this.#open.set(uri, [...(this.#open.get(uri) ?? []), connection]);
    return connection;
  }

  /** Closes connections that nobody uses, but for one to an address that a data source names. */
  #closeUnused(uri: string): void {
    const connections = this.#open.get(uri) ?? [];
    const used = connections.filter(({ users }) => users > 0);
    const named = this.#named?.has(uri) !== false || uri === this.#o.builtIn();
    const kept = used.length === 0 && named ? connections.slice(0, 1) : used;
    if (kept.length > 0) {
      this.#open.set(uri, kept);
    } else {
      this.#open.delete(uri);
    }
    for (const { calls } of connections.filter((connection) => !kept.includes(connection))) {
      calls.close();
    }
  }
}
