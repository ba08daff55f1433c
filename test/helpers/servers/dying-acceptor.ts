/** The thread entry of acceptors, with a defect: the thread throws after the first answered 404. */
import { workerData } from "node:worker_threads";

import type { AcceptorSettings } from "../../../src/routes/otlp/acceptor.js";
import { FrontCounters, statuses } from "../../../src/routes/otlp/counters.js";

await import("../../../src/workers/acceptor-thread.js");

/** Index of the 404s without a signal, whose counters come first. */
const notFoundAt = statuses.indexOf(404);

const counters = new FrontCounters((workerData as AcceptorSettings).counters);
const before = counters.at(notFoundAt);
const timer = setInterval(() => {
  if (counters.at(notFoundAt) === before) {
    return;
  }
  clearInterval(timer);
  throw new Error("a defect");
}, 10);
