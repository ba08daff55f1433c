/** Metrics of the shop: what each process reports at every interval. The same seed makes the same points. */
import { seededRandom } from "../../test/helpers/seeded-random.js";
import { busyness, fleet, type Instance, isBad, shopNs } from "./fleet.js";
import { endpoints } from "./services.js";
import type { Attributes } from "./traces.js";

/** What a metric is; `temporality` as OTLP numbers it: 1 delta, 2 cumulative. */
export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly kind: "gauge" | "sum" | "histogram" | "exponential";
  readonly temporality: 0 | 1 | 2;
  readonly monotonic: boolean;
}

/** One value at one time. Times are nanoseconds since the shop's begin. */
export interface Point {
  readonly startNs: number;
  readonly timeNs: number;
  /** Of gauges and sums: the value; of histograms: the sum. */
  readonly value: number;
  /** Of histograms: counts of the buckets. */
  readonly counts: readonly number[] | null;
  /** Of the exponential ones: index of the first bucket. */
  readonly offset: number;
}

/** Points of one series. */
export interface Series {
  readonly metric: Metric;
  readonly attributes: Attributes;
  readonly points: Point[];
}

/** Bounds of the explicit buckets, in seconds, as the semantic conventions advise. */
export const bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10] as const;
/** Scale of the exponential histograms: two buckets for each doubling. */
export const exponentialScale = 1;

const metric = (
  name: string,
  unit: string,
  kind: Metric["kind"],
  temporality: Metric["temporality"],
  description: string,
  monotonic = kind === "sum",
): Metric => ({ name, unit, kind, temporality, description, monotonic });

const requestDuration = metric(
  "http.server.request.duration",
  "s",
  "histogram",
  2,
  "Duration of HTTP server requests.",
);
const queryDuration = metric("db.client.operation.duration", "s", "exponential", 1, "Duration of database calls.");
const requests = metric("shop.requests", "{request}", "sum", 2, "Requests answered.");
const orders = metric("shop.orders", "{order}", "sum", 1, "Orders placed.");
const cpu = metric("process.cpu.time", "s", "sum", 2, "Time on processors.");
const memory = metric("process.memory.usage", "By", "sum", 2, "Memory in use.", false);
const utilization = metric("system.cpu.utilization", "1", "gauge", 0, "Share of the processors that is busy.");
const connections = metric("db.client.connection.count", "{connection}", "gauge", 0, "Connections of the pool.");

/** How a series goes on: its next point from the last one. */
interface Walk {
  readonly metric: Metric;
  readonly attributes: Attributes;
  readonly share: number;
}

/** The series that a process has. */
function walksOf({ service }: Instance): Walk[] {
  const own = endpoints.filter((endpoint) => endpoint.service === service.name);
  const http = own.filter(({ protocol }) => protocol === "http");
  const routes = http.map(({ name }): Walk => ({
    metric: requestDuration,
    attributes: [
      ["http.request.method", name.slice(0, name.indexOf(" "))],
      ["http.route", name.slice(name.indexOf(" ") + 1)],
    ],
    share: 1 / http.length,
  }));
  const outcomes = [
    ["ok", 0.99],
    ["error", 0.01],
  ] as const;
  const hasDatabase = own.some(({ steps }) => steps.some((step) => "query" in step));
  return [
    ...routes,
    ...outcomes.map(([outcome, share]): Walk => ({ metric: requests, attributes: [["outcome", outcome]], share })),
    ...["user", "system"].map((mode): Walk => ({ metric: cpu, attributes: [["cpu.mode", mode]], share: 0.5 })),
    { metric: memory, attributes: [], share: 1 },
    { metric: utilization, attributes: [], share: 1 },
    ...(hasDatabase
      ? ([
          { metric: queryDuration, attributes: [["db.system.name", "postgresql"]], share: 1 },
          ...["idle", "used"].map((state): Walk => ({
            metric: connections,
            attributes: [["db.client.connection.state", state]],
            share: 0.5,
          })),
        ] satisfies Walk[])
      : []),
    ...(service.name === "checkout"
      ? ["EUR", "GBP", "USD"].map((currency): Walk => ({
          metric: orders,
          attributes: [["currency", currency]],
          share: 0.3,
        }))
      : []),
  ];
}

/** Points that all processes together report at one time when all run that ever do. */
const pointsOfExport = fleet.reduce((sum, { fromNs, toNs, ...rest }) => {
  return sum + (walksOf({ fromNs, toNs, ...rest }).length * (toNs - fromNs)) / shopNs;
}, 0);

/** Seconds between two reports for about so many points in all. */
export function intervalFor(points: number): number {
  return Math.max(1, Math.round((shopNs / 1e9) * (pointsOfExport / Math.max(points, 1))));
}

/** The points of one process, some exports at a time: what it reports at once with the times that it covers. */
export class MetricMaker {
  readonly instance: Instance;
  readonly #random: () => number;
  readonly #intervalNs: number;
  readonly #walks: readonly (Walk & { total: number; counts: number[]; startNs: number })[];
  #atNs: number;
  #restarted = false;

  constructor(instance: Instance, seed: number, intervalSeconds: number) {
    this.instance = instance;
    this.#random = seededRandom(Math.imul(seed + 1, 0x9e37_79b1) ^ Math.imul(instance.index + 1, 0xc2b2_ae35));
    this.#intervalNs = intervalSeconds * 1e9;
    // Processes do not report at the same moment.
    this.#atNs = instance.fromNs + Math.floor(this.#random() * this.#intervalNs);
    this.#walks = walksOf(instance).map((walk) => ({ ...walk, total: 0, counts: [], startNs: instance.fromNs }));
  }

  /** When the next export is due, nanoseconds since the shop's begin; infinite when the process has ended. */
  get dueNs(): number {
    return this.#atNs < this.instance.toNs ? this.#atNs : Number.POSITIVE_INFINITY;
  }

  /** The next exports, at most so many, by series. */
  exports(most: number): readonly Series[] {
    const series = this.#walks.map(({ metric, attributes }): Series => ({ metric, attributes, points: [] }));
    for (let i = 0; i < most && this.dueNs !== Number.POSITIVE_INFINITY; i++) {
      const { restartNs } = this.instance;
      if (!this.#restarted && restartNs !== null && this.#atNs >= restartNs) {
        this.#restarted = true;
        for (const walk of this.#walks) {
          walk.total = 0;
          walk.counts = [];
          walk.startNs = restartNs;
        }
      }
      for (const [index, walk] of this.#walks.entries()) {
        series[index]?.points.push(this.#next(walk));
      }
      this.#atNs += this.#intervalNs;
    }
    return series;
  }

  #next(walk: Walk & { total: number; counts: number[]; startNs: number }): Point {
    const { metric, share } = walk;
    const timeNs = this.#atNs;
    const random = this.#random;
    const seconds = this.#intervalNs / 1e9;
    const busy = busyness(timeNs) * (0.8 + 0.4 * random());
    const point = (value: number, counts: readonly number[] | null = null, offset = 0): Point => ({
      startNs: metric.temporality === 1 ? Math.max(walk.startNs, timeNs - this.#intervalNs) : walk.startNs,
      timeNs,
      value,
      counts,
      offset,
    });
    switch (metric.kind) {
      case "gauge":
        return point(metric === utilization ? Math.min(1, 0.35 * busy) : Math.round(20 * busy * share));
      case "sum": {
        if (metric === memory) {
          return point(Math.round(180e6 + 60e6 * busy));
        }
        const bad = isBad(this.instance) && walk.attributes[0]?.[1] === "error" ? 30 : 1;
        const increase = metric === cpu ? 0.2 * seconds * busy * share : Math.floor(5 * seconds * busy * share * bad);
        walk.total = metric.temporality === 1 ? increase : walk.total + increase;
        return point(walk.total);
      }
      case "histogram": {
        const counts = walk.counts.length === 0 ? Array.from({ length: bounds.length + 1 }, () => 0) : [...walk.counts];
        const middle = isBad(this.instance) ? 9 : 5;
        for (let bucket = 0; bucket < counts.length; bucket++) {
          const weight = Math.exp(-((bucket - middle) ** 2) / 4) / 3.5;
          const added = Math.floor(5 * seconds * busy * share * weight + random());
          counts[bucket] = (counts[bucket] ?? 0) + added;
          walk.total += added * ((bounds[bucket] ?? 15) * 0.8);
        }
        walk.counts = counts;
        return point(walk.total, counts);
      }
      case "exponential": {
        const counts = Array.from({ length: 12 }, (_, bucket) =>
          Math.floor((seconds * busy * 8 * Math.exp(-((bucket - 5) ** 2) / 6)) / 4.3 + random()),
        );
        // Bucket 0 begins at 2^(-20/2), about a millisecond.
        const offset = -20;
        const sum = counts.reduce((total, count, bucket) => total + count * 2 ** ((offset + bucket + 0.5) / 2), 0);
        return point(sum, counts, offset);
      }
    }
  }
}
