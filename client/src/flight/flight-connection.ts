/** A gRPC connection to a Flight server. */
import * as grpc from "@grpc/grpc-js";

import { type FlightSqlAddress, parseFlightSqlUri } from "./flight-address.js";
import { cancelled, clientClosed, noConnection } from "./flight-sql-error.js";

/** As long as gRPC gives an attempt to connect at least ("gRPC Connection Backoff Protocol"). */
const defaultConnectTimeoutMs = 20_000;

/** The library would wait for two minutes in the end, and until then fail calls to a server that is back. */
const mostBetweenAttemptsMs = 5000;

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
  /** Calls that go on. */
  #open = 0;

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
      "grpc.max_reconnect_backoff_ms": mostBetweenAttemptsMs,
      // Else connections to one address share a socket, and with it the calls that a server takes of one.
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  /**
   * What makes a call, until that ends: `release` says so, or the signal. Once closed, the library's client would throw an
   * error of its own, or connect again.
   * @throws FlightSqlError when it is closed
   */
  use(signal: AbortSignal): { readonly client: grpc.Client; readonly release: () => void } {
    this.#refuseWhenClosed();
    this.#open += 1;
    let released = false;
    const release = (): void => {
      if (released) {
        return;
      }
      released = true;
      signal.removeEventListener("abort", release);
      this.#open -= 1;
      this.#closeUnused();
    };
    signal.addEventListener("abort", release, { once: true });
    return { client: this.#client, release };
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
      this.#refuseWhenClosed();
      const state = this.#client.getChannel().getConnectivityState(true);
      if (state !== IDLE && state !== CONNECTING) {
        return;
      }
      await this.#changed(state, deadline, signal);
    }
  }

  /** Takes no more calls, and ends with the last that goes on: the library would let none of them live for long. */
  close(): void {
    this.#closed = true;
    this.#closeUnused();
  }

  #closeUnused(): void {
    if (this.#closed && this.#open === 0) {
      this.#client.close();
    }
  }

  #refuseWhenClosed(): void {
    if (this.#closed) {
      throw clientClosed();
    }
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
      this.#client.getChannel().watchConnectivityState(state, deadline, (error) => {
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
