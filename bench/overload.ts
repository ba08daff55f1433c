/**
 * Overload, a part of `pnpm bench ingest`: requests of logs come at three times the highest rate, from enough senders that
 * the server has to refuse some. What it stores meanwhile, its memory, and what the others are answered; and what senders
 * of another audience notice, who send little.
 */
import { atLeast, atMost, type Figure, figure, median, noLimit, notMeasured, round } from "./figures.js";
import type { LoadOptions } from "./load/ingestion-process.js";
import type { LoadReport } from "./load/load-generator.js";
import { processMemory } from "./run/machine.js";

/** So many times the highest rate. */
const times = 3;
/** With less than this the server was not overloaded as it should be. */
const leastTimes = 2.5;
const senders = 512;
const sampleMs = 250;
/** Memory has to be flat in a run as long as this. */
const flatSeconds = 60;

/** Figures, and what else is worth printing. */
interface Overload {
  readonly figures: readonly Figure[];
  readonly extra: Readonly<Record<string, unknown>>;
}

/**
 * Measures it.
 * @param o.pid of the server
 * @param o.highest a run in a closed loop, just before
 * @param o.run sends a load, whatever is answered
 */
export async function measureOverload(o: {
  readonly pid: number;
  readonly highest: LoadReport;
  readonly records: number;
  readonly seconds: number;
  readonly run: (name: string, load: LoadOptions) => Promise<LoadReport>;
  /** Sends a load of another audience. */
  readonly bystander: (load: LoadOptions) => Promise<LoadReport>;
}): Promise<Overload> {
  const highestRate = o.highest.requests / o.highest.seconds;
  const memory: number[] = [];
  const sampling = setInterval(() => {
    memory.push(processMemory(o.pid).residentBytes);
  }, sampleMs);
  const load = { signal: "logs", seconds: o.seconds, drop: true } as const;
  let report: LoadReport;
  let bystander: LoadReport;
  try {
    [report, bystander] = await Promise.all([
      o.run("ingest.overload logs", {
        ...load,
        records: o.records,
        connections: senders,
        rate: Math.max(1, Math.round(highestRate * times)),
      }),
      o.bystander({ ...load, records: 100, connections: 16, rate: 20 }),
    ]);
  } finally {
    clearInterval(sampling);
  }
  const { statuses, unsent } = report;
  return {
    figures: [...overloadFigures(o.highest, report, memory), ...bystanderFigures(bystander)],
    extra: {
      overload: {
        highestRequestsPerSecond: Math.round(highestRate),
        dueRequestsPerSecond: report.offeredRequestsPerSecond,
        sentTimesHighest: round(timesSent(o.highest, report)),
        stored: statuses["200"] ?? 0,
        refused: Object.fromEntries(refusals(report)),
        unsent,
        residentMB: memory.map((bytes) => Math.round(bytes / 1e6)),
      },
    },
  };
}

const refusals = ({ statuses }: LoadReport): [string, number][] =>
  Object.entries(statuses).filter(([status]) => status !== "200");

/** Requests that were answered or refused a second, in multiples of the highest rate. */
const timesSent = (highest: LoadReport, report: LoadReport): number =>
  report.requests / report.seconds / (highest.requests / highest.seconds);

/** What another audience noticed: requests that were refused or never sent, and how long the others took. */
export function bystanderFigures(report: LoadReport): Figure[] {
  const id = "ingest.overload, another audience";
  const refused = report.requests + report.unsent - (report.statuses["200"] ?? 0);
  return [
    figure(`${id}: refused`, "requests", refused, atMost(0)),
    figure(`${id}: stored, p50`, "ms", report.latencyMs.p50),
    figure(`${id}: stored, p99`, "ms", report.latencyMs.p99),
  ];
}

/**
 * What a run under overload came to.
 * @param memory resident bytes of the server, from the beginning to the end
 */
export function overloadFigures(highest: LoadReport, report: LoadReport, memory: readonly number[]): Figure[] {
  const goodput = report.acknowledgedRecords / report.seconds / (highest.acknowledgedRecords / highest.seconds);
  const sent = timesSent(highest, report);
  const quarter = Math.floor(memory.length / 4);
  const part = (index: number): number => median(memory.slice(index * quarter, (index + 1) * quarter));
  const growth = quarter === 0 ? Number.NaN : part(3) / part(1);
  const id = "ingest.overload goodput";
  const limit = atLeast(0.9, "the highest rate, same run");
  // Senders that wait for answers cannot send: then it was the server that held the load back.
  const isOverload = sent >= leastTimes || report.unsent > 0;
  return [
    isOverload
      ? figure(id, "times", goodput, limit)
      : notMeasured(id, "times", `the generator sent ${round(sent)} times the highest rate, not ${times}`, limit),
    figure(
      "ingest.overload memory, last quarter to second",
      "times",
      growth,
      // A server that has just met the load for the first time still grows.
      report.seconds >= flatSeconds ? atMost(1.1) : noLimit(`at most 1.1 in ${flatSeconds} s`),
    ),
    figure("ingest.overload refused", "requests", report.requests - (report.statuses["200"] ?? 0)),
    ...refusals(report).map(([status, count]) => figure(`ingest.overload refused with ${status}`, "requests", count)),
  ];
}
