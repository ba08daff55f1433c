/** The real front end on its thread, with a defect: the thread throws after every answered 404. */
import { FrontCounters, statuses } from "../../../src/routes/otlp/counters.js";
import { runAcceptor as runRealAcceptor } from "../../../src/routes/otlp/acceptor.js";
import type { AcceptorModule } from "../../../src/workers/acceptor-thread.js";

/** Index of the 404s without a signal, whose counters come first. */
const notFoundAt = statuses.indexOf(404);

export const runAcceptor: AcceptorModule["runAcceptor"] = async (data, port) => {
  const counters = new FrontCounters(data.counters);
  const before = counters.at(notFoundAt);
  await runRealAcceptor(data, port);
  const timer = setInterval(() => {
    if (counters.at(notFoundAt) === before) return;
    clearInterval(timer);
    throw new Error("a defect");
  }, 10);
};
