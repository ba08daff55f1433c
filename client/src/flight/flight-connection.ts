/** A gRPC connection to a Flight server. */
import * as grpc from "@grpc/grpc-js";

import { type FlightSqlAddress, parseFlightSqlUri } from "./flight-address.js";
import { cancelled, clientClosed, noConnection } from "./flight-sql-error.js";

/** As long as gRPC gives an attempt to connect at least ("gRPC Connection Backoff Protocol"). */
const defaultConnectTimeoutMs = 20_000;

/** How to connect. */
export interface FlightConnectionOptions {
  readonly uri: string;
  readonly rootCertificates?: Buffer;
  readonly clientName?: string;
  /** How long a call waits for a connection. Default 20 s. */
  readonly connectTimeoutMs?: number;
}

/** See the head of this file. The first call connects. */
export class FlightConnection {
  readonly address: FlightSqlAddress;
  readonly #client: grpc.Client;
  readonly #connectTimeoutMs: number;
  #closed = false;

  /** @throws TypeError for a malformed URI */
  constructor(o: FlightConnectionOptions) {
    this.address = parseFlightSqlUri(o.uri);
    this.#connectTimeoutMs = o.connectTimeoutMs ?? defaultConnectTimeoutMs;
    const { target, tls, loopback } = this.address;
    const credentials = tls
      ? grpc.credentials.createSsl(o.rootCertificates ?? null)
      : grpc.credentials.createInsecure();
    this.#client = new grpc.Client(target, credentials, {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
      "grpc.primary_user_agent": o.clientName ?? "telemetry-client",
      // A proxy for the world outside must not get to see loopback traffic.
      ...(loopback ? { "grpc.enable_http_proxy": 0 } : {}),
      "grpc.keepalive_time_ms": 30_000,
      // Else connections to one address share a socket, and with it the calls that a server takes of one.
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  /**
   * What makes calls. Once closed, the library's client would throw an error of its own, or connect again.
   * @throws FlightSqlError when it is closed
   */
  get client(): grpc.Client {
    if (this.#closed) {
      throw clientClosed();
    }
    return this.#client;
  }

  /**
   * Ends when there is a connection, or none can be made, which the call then says. The library bounds no attempt: what
   * takes the connection and says nothing would be waited for for ever.
   * @throws FlightSqlError when neither is known in time, or the signal aborts
   */
  async attempted(signal: AbortSignal): Promise<void> {
    const { IDLE, CONNECTING } = grpc.connectivityState;
    const deadline = Date.now() + this.#connectTimeoutMs;
    for (;;) {
      const state = this.client.getChannel().getConnectivityState(true);
      if (state !== IDLE && state !== CONNECTING) {
        return;
      }
      await this.#changed(state, deadline, signal);
    }
  }

  close(): void {
    this.#closed = true;
    this.#client.close();
  }

  /** Waits until the state is another one. */
  #changed(state: grpc.connectivityState, deadline: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(cancelled());
      if (signal.aborted) {
        abort();
        return;
      }
      signal.addEventListener("abort", abort, { once: true });
      this.client.getChannel().watchConnectivityState(state, deadline, (error) => {
        signal.removeEventListener("abort", abort);
        if (error === undefined) {
          resolve();
        } else {
          reject(noConnection(this.address, this.#connectTimeoutMs));
        }
      });
    });
  }
}
