/** Connections to the analytics servers that queries of the web application go to: one each, made by the first query. */
import { type FlightCalls, openFlightCalls } from "telemetry-service-client/flight/flight-calls";
import type { AdminService } from "../../../admin/admin-service.js";
import { ServiceError, toServiceError } from "../../../runtime/errors.js";
import { builtInSource } from "../../../wire/web/app-api.js";

/** A data source to query. */
export interface OpenSource {
  readonly name: string;
  readonly calls: FlightCalls;
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
  readonly #open = new Map<string, FlightCalls>();
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
      return { name: row.name, calls: this.#callsTo(row.uri) };
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
    return { name: builtInSource, calls: this.#callsTo(uri) };
  }

  /** The list was changed. */
  forget(): void {
    this.#known = null;
  }

  stop(): void {
    for (const calls of this.#open.values()) {
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
      this.#known = { rows: admin.sources(), atMs: monotonicMs() };
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

  #callsTo(uri: string): FlightCalls {
    const known = this.#open.get(uri);
    if (known !== undefined) {
      return known;
    }
    const calls = openFlightCalls({ uri, clientName: "telemetry-web" });
    this.#open.set(uri, calls);
    return calls;
  }
}
