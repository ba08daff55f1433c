/** Connections to the analytics servers that queries of the web application go to: one each, made by the first query. */
import { type FlightCalls, openFlightCalls } from "telemetry-service-client/flight/flight-calls";
import { ServiceError } from "../../../runtime/errors.js";

/** Name of the data source that is always there: the analytics server of `SVC_ANALYTICS_URI`. */
export const builtInSource = "default";

/** A data source to query. */
export interface OpenSource {
  readonly name: string;
  readonly calls: FlightCalls;
}

/** Options of {@link DataSources}. */
export interface DataSourcesOptions {
  /** Address of the built-in one; null while it is not known yet. */
  readonly builtIn: () => string | null;
}

/** See the head of the file. */
export class DataSources {
  readonly #o: DataSourcesOptions;
  /** By address: callers share a connection, each call carries its caller's token. */
  readonly #open = new Map<string, FlightCalls>();

  constructor(o: DataSourcesOptions) {
    this.#o = o;
  }

  /** @throws ServiceError NOT_FOUND for an unknown name, UNAVAILABLE while the server is starting. */
  open(name: string | undefined): OpenSource {
    if (name !== undefined && name !== builtInSource) {
      throw new ServiceError("NOT_FOUND", "there is no data source of that name");
    }
    const uri = this.#o.builtIn();
    if (uri === null) {
      throw new ServiceError("UNAVAILABLE", "the analytics server is starting; try again", { retryAfterSeconds: 1 });
    }
    return { name: builtInSource, calls: this.#callsTo(uri) };
  }

  stop(): void {
    for (const calls of this.#open.values()) {
      calls.close();
    }
    this.#open.clear();
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
