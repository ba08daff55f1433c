/** Thread entry of an acceptor: a front end with its own uWebSockets.js application and its own arena. */
import { parentPort, workerData } from "node:worker_threads";

import { type AcceptorSettings, OtlpAcceptor } from "../routes/otlp/acceptor.js";

if (parentPort === null) {
  throw new Error("an acceptor runs in a worker thread");
}
const acceptor = new OtlpAcceptor(workerData as AcceptorSettings, parentPort);
process.once("uncaughtException", (error) => {
  acceptor.fail(error);
});
