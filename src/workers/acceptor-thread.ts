/**
 * Thread entry of an acceptor: a front end with its own uWebSockets.js application and its own arena.
 * The front end lies above this folder, so the main thread says where its module is.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";

import { toErrorRecord } from "../runtime/errors.js";
import type { AcceptorWorkerData, FromAcceptor } from "./acceptor-messages.js";

/** What the module named in {@link AcceptorWorkerData} exports. */
export interface AcceptorModule {
  /** Listens and answers until it is told to close. */
  readonly runAcceptor: (data: AcceptorWorkerData, port: MessagePort) => Promise<void>;
}

if (parentPort === null) throw new Error("an acceptor runs in a worker thread");
const port: MessagePort = parentPort;
const data = workerData as AcceptorWorkerData;
try {
  const { runAcceptor } = (await import(data.module)) as AcceptorModule;
  await runAcceptor(data, port);
} catch (error) {
  port.postMessage({ kind: "failed", error: toErrorRecord(error) } satisfies FromAcceptor);
  port.postMessage({ kind: "closed" } satisfies FromAcceptor);
}
