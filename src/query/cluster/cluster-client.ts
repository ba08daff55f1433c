/** Spark Connect over gRPC: sessions of one query each. Retries nothing, and starts nothing again. */
import { randomUUID } from "node:crypto";

import { Client, type ClientReadableStream, connectivityState, credentials, Metadata, status } from "@grpc/grpc-js";
import { isGrpcError } from "telemetry-service-client/flight/flight-sql-error";

import { onAbort } from "../../runtime/aborts.js";
import { abortReason, ServiceError } from "../../runtime/errors.js";
import {
  decodeExecutePlanResponse,
  encodeExecutePlan,
  encodeInterruptAll,
  encodeReleaseSession,
  encodeSetConfig,
  type SparkResponse,
  type SparkSession,
} from "../../wire/spark/spark-connect.js";
import type { ClusterAddress } from "./cluster-uri.js";

/** A failure of the cluster, or of the way to it. */
export class ClusterError extends Error {
  /** It refused the statement: it is up, and would refuse it again. */
  readonly refused: boolean;

  constructor(message: string, refused: boolean, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "ClusterError";
    this.refused = refused;
  }
}

/** A session of a cluster. Release it. */
export interface ClusterSession {
  /** Keys that the server does not know do no harm. @throws ClusterError */
  configure(pairs: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  /**
   * Runs a plan to its end. The stream ends well only with the status OK behind everything.
   * @throws ClusterError, too when `signal` was aborted and the server had said nothing for as long as one waits for
   * it; else what `signal` was aborted with
   */
  execute(plan: Uint8Array, signal: AbortSignal): AsyncGenerator<SparkResponse, void, undefined>;
  /** Ends whatever runs in it, and forgets it. Never rejects. */
  release(): Promise<void>;
}

const service = "/spark.connect.SparkConnectService/";
/** How long a server may take to let itself be connected to, and to answer a call that runs no query. */
const defaultPatienceMs = 10_000;
/** What a server says of a statement, rather than of itself. */
const aboutStatement: ReadonlySet<number> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.FAILED_PRECONDITION,
  status.OUT_OF_RANGE,
  status.UNIMPLEMENTED,
  status.INTERNAL,
]);

/** What is known of a session. */
interface SessionState {
  readonly session: SparkSession;
  /** When it was first asked for something; null: never. */
  askedMs: number | null;
  answered: boolean;
  /** Plans that may run in it. */
  running: number;
}

const same = (bytes: Buffer): Buffer => bytes;

/** Speaks to one cluster. */
export class ClusterClient {
  readonly #client: Client;
  readonly #address: ClusterAddress;
  readonly #patienceMs: number;

  /** Connects when it is first asked. */
  constructor(address: ClusterAddress, patienceMs = defaultPatienceMs) {
    this.#address = address;
    this.#patienceMs = patienceMs;
    this.#client = new Client(address.target, address.tls ? credentials.createSsl() : credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
      "grpc.keepalive_time_ms": 20_000,
      "grpc.enable_retries": 0,
    });
  }

  /** A new session; the server makes it at the first call. */
  open(): ClusterSession {
    const session: SparkSession = { sessionId: randomUUID(), userId: this.#address.userId };
    const state: SessionState = { session, askedMs: null, answered: false, running: 0 };
    return {
      configure: async (pairs, signal) => {
        state.askedMs ??= performance.now();
        await this.#unary("Config", encodeSetConfig(session, pairs), signal);
        state.answered = true;
      },
      execute: (plan, signal) => this.#execute(state, plan, signal),
      release: async () => {
        if (state.askedMs === null) {
          return;
        }
        try {
          if (state.running > 0) {
            await this.#unary("Interrupt", encodeInterruptAll(session));
          }
          await this.#unary("ReleaseSession", encodeReleaseSession(session));
        } catch {
          // It is gone, or will be: servers drop sessions that nobody uses.
        }
      },
    };
  }

  close(): void {
    this.#client.close();
  }

  #metadata(): Metadata {
    const metadata = new Metadata();
    if (this.#address.token !== null) {
      metadata.set("authorization", `Bearer ${this.#address.token}`);
    }
    return metadata;
  }

  #unary(method: string, request: Buffer, signal?: AbortSignal): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        `${service}${method}`,
        same,
        same,
        request,
        this.#metadata(),
        { deadline: Date.now() + this.#patienceMs },
        (error, response) => {
          signal?.removeEventListener("abort", cancel);
          if (error === null && response !== undefined) {
            resolve(response);
          } else {
            reject(signal?.aborted === true ? abortReason(signal) : clusterError(error));
          }
        },
      );
      const cancel = (): void => {
        call.cancel();
      };
      signal?.addEventListener("abort", cancel, { once: true });
      if (signal?.aborted === true) {
        cancel();
      }
    });
  }

  /**
   * Waits until a call is sent, or fails at once. Left to itself, a call waits without an end for a server that takes
   * connections and then says nothing.
   */
  #connected(signal: AbortSignal): Promise<void> {
    const channel = this.#client.getChannel();
    const untilMs = Date.now() + this.#patienceMs;
    return new Promise((resolve, reject) => {
      const leave = onAbort(signal, reject);
      const look = (late?: Error): void => {
        const state = channel.getConnectivityState(true);
        if (signal.aborted || (state !== connectivityState.IDLE && state !== connectivityState.CONNECTING)) {
          leave();
          resolve();
        } else if (late === undefined) {
          channel.watchConnectivityState(state, untilMs, look);
        } else {
          leave();
          reject(new ClusterError("it takes no connection", false, { cause: late }));
        }
      };
      look();
    });
  }

  async *#execute(
    state: SessionState,
    plan: Uint8Array,
    signal: AbortSignal,
  ): AsyncGenerator<SparkResponse, void, undefined> {
    await this.#connected(signal);
    state.askedMs ??= performance.now();
    const call: ClientReadableStream<Buffer> = this.#client.makeServerStreamRequest(
      `${service}ExecutePlan`,
      same,
      same,
      encodeExecutePlan(state.session, randomUUID(), plan),
      this.#metadata(),
    );
    const leave = onAbort(signal, () => {
      call.cancel();
    });
    state.running++;
    let ended = false;
    let serverSession = "";
    try {
      for await (const message of call as AsyncIterable<Buffer>) {
        state.answered = true;
        const response = decodeExecutePlanResponse(message);
        if (serverSession !== "" && response.serverSession !== "" && response.serverSession !== serverSession) {
          throw new ClusterError("the session was lost", false);
        }
        serverSession = response.serverSession;
        yield response;
      }
      // A command may end without a message.
      state.answered = true;
      ended = true;
    } catch (error) {
      if (signal.aborted) {
        const isSilent = !state.answered && performance.now() - state.askedMs >= this.#patienceMs;
        throw isSilent ? new ClusterError("no answer", false, { cause: error }) : abortReason(signal);
      }
      ended = isGrpcError(error);
      throw error instanceof ClusterError || error instanceof ServiceError ? error : clusterError(error);
    } finally {
      leave();
      call.cancel();
      if (ended && !signal.aborted) {
        state.running--;
      }
    }
  }
}

function clusterError(error: unknown): ClusterError {
  if (isGrpcError(error)) {
    return new ClusterError(`${status[error.code]}: ${error.details}`, aboutStatement.has(error.code), {
      cause: error,
    });
  }
  return new ClusterError("the cluster answered with something that is not known", false, { cause: error });
}
