/** Stands for a cluster: keeps what a server sends it for a query, and runs nothing. */
import { status } from "@grpc/grpc-js";

import { eachField, onlyBytes } from "../../src/wire/protobuf-fields.js";
import { listenForConnect } from "../../test/helpers/query/connect-listener.js";

/** What a server sent. */
export interface RecordedQuery {
  /** Of the session; null: none. */
  readonly settings: Readonly<Record<string, string>> | null;
  /** Plans of Spark Connect: views first, and the statement last. */
  readonly plans: readonly Uint8Array[];
  /** When the first of it came, as of `performance.now()`. */
  readonly firstMs: number;
}

/** The stand-in. */
export interface ClusterRecorder {
  readonly uri: string;
  /** The next query, when its statement has come; it is refused then. */
  next(): Promise<RecordedQuery>;
  stop(): void;
}

/** What the server asks once, to learn how times are read. */
const probe = "SELECT date_part('nanosecond', TIMESTAMP_NTZ '2000";

/** @param engine whose times it has: Sail's have nanoseconds */
export async function startClusterRecorder(engine: "sail" | "spark"): Promise<ClusterRecorder> {
  let waiting: ((query: RecordedQuery) => void) | null = null;
  let settings: Record<string, string> | null = null;
  let plans: Uint8Array[] = [];
  let firstMs = 0;
  const came = (): void => {
    if (plans.length === 0 && settings === null) {
      firstMs = performance.now();
    }
  };
  const listener = await listenForConnect({
    executePlan: (call) => {
      const { request } = call;
      const refuse = (): void => {
        call.emit("error", { code: status.INTERNAL, details: "nothing is run here" });
      };
      if (request.includes(probe)) {
        if (engine === "sail") {
          call.end();
        } else {
          refuse();
        }
        return;
      }
      came();
      const plan = onlyBytes(request, 3);
      plans.push(Buffer.from(plan));
      // A command makes a view; a relation is the statement.
      if (onlyBytes(plan, 2).length > 0) {
        call.end();
        return;
      }
      waiting?.({ settings, plans, firstMs });
      [waiting, settings, plans] = [null, null, []];
      refuse();
    },
    unary:
      (name) =>
      ({ request }, done) => {
        if (name === "Config") {
          came();
          settings = settingsOf(request);
        }
        done(null, Buffer.alloc(0));
      },
  });
  return {
    uri: listener.uri,
    next: () =>
      new Promise((resolve) => {
        waiting = resolve;
      }),
    stop: () => {
      listener.stop();
    },
  };
}

/** Keys and values of a ConfigRequest that sets some. */
function settingsOf(request: Uint8Array): Record<string, string> {
  const settings: Record<string, string> = {};
  eachField(onlyBytes(onlyBytes(request, 3), 1), (field, pair) => {
    if (field === 1) {
      const text = (of: number): string => Buffer.from(onlyBytes(pair, of)).toString("utf8");
      settings[text(1)] = text(2);
    }
  });
  return settings;
}
