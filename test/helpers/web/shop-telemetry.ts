/**
 * Telemetry of a small shop for the tests of the web application, as OTLP/JSON requests: five services, traces through
 * them with errors and exceptions, logs that belong to the traces, counters, gauges and histograms with exemplars. The
 * same for the same seed, but for its times, which end at `endMs`. Some of it has markup in it, which must stay text.
 */
import { seededRandom } from "../seeded-random.js";

/** A request to send. */
interface OtlpRequest {
  /** Behind `/ingestion/otlp`. */
  readonly path: "/v1/logs" | "/v1/traces" | "/v1/metrics";
  readonly body: object;
}

/** What was made, for tests that count. */
export interface Shop {
  readonly requests: readonly OtlpRequest[];
  readonly traceIds: readonly string[];
}

export const services = ["gateway", "checkout", "catalogue", "payment", "inventory"] as const;
type Service = (typeof services)[number];

/** A message that would do harm if it were markup. */
const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

type Attributes = Readonly<Record<string, string | number | boolean>>;

const attributesOf = (attributes: Attributes): object[] =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === "string"
        ? { stringValue: value }
        : typeof value === "boolean"
          ? { boolValue: value }
          : Number.isInteger(value)
            ? { intValue: String(value) }
            : { doubleValue: value },
  }));

const resourceOf = (service: Service): object => ({
  attributes: attributesOf({
    "service.name": service,
    "service.version": service === "checkout" ? "2.4.1" : "1.9.0",
    "service.instance.id": `${service}-1`,
    "host.name": service === "inventory" ? "node-b" : "node-a",
    "deployment.environment.name": "production",
    "telemetry.sdk.language": service === "payment" ? "java" : "nodejs",
  }),
});

const routes = ["/cart", "/checkout", "/products", "/products/{id}", "/login"] as const;
/** Who calls whom. */
const calls: Readonly<Record<Service, readonly Service[]>> = {
  gateway: ["catalogue", "checkout"],
  checkout: ["payment", "inventory"],
  catalogue: ["inventory"],
  payment: [],
  inventory: [],
};

/** What services call that sends no spans, and how: a name and attributes of the span. */
const outside: Readonly<Partial<Record<Service, readonly [name: string, attributes: Attributes]>>> = {
  inventory: ["SELECT stock", { "db.system.name": "postgresql" }],
  payment: ["POST /charges", { "server.address": "cards.example" }],
};

const severities = { fatal: 21, error: 17, warn: 13, info: 9, debug: 5 } as const;

/** @param o.traces how many; a trace has 1 to 11 spans and nearly as many log records. */
export function shopTelemetry(o: { readonly endMs: number; readonly spanMs: number; readonly traces: number }): Shop {
  const random = seededRandom(1);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join("");
  const spans = new Map<Service, object[]>(services.map((service) => [service, []]));
  const logs = new Map<Service, object[]>(services.map((service) => [service, []]));
  const traceIds: string[] = [];

  const log = (
    service: Service,
    atMs: number,
    level: keyof typeof severities,
    text: string,
    more: Attributes,
    ids: { readonly traceId?: string; readonly spanId?: string } = {},
  ): void => {
    logs.get(service)?.push({
      timeUnixNano: nano(atMs),
      severityNumber: severities[level],
      severityText: level.toUpperCase(),
      body: { stringValue: text },
      attributes: attributesOf(more),
      ...ids,
    });
  };

  const call = (service: Service, traceId: string, parent: string | null, beginMs: number, route: string): number => {
    const spanId = hex(16);
    let endMs = beginMs + 2 + random() * 20;
    for (const callee of calls[service]) {
      if (random() < 0.8) {
        endMs = call(callee, traceId, spanId, endMs + random(), route) + 1 + random() * 4;
      }
    }
    const beyond = outside[service];
    if (beyond !== undefined) {
      spans.get(service)?.push({
        traceId,
        spanId: reversed(spanId),
        parentSpanId: spanId,
        name: beyond[0],
        kind: 3,
        startTimeUnixNano: nano(beginMs + (endMs - beginMs) * 0.2),
        endTimeUnixNano: nano(beginMs + (endMs - beginMs) * 0.9),
        attributes: attributesOf(beyond[1]),
      });
    }
    const failed = random() < (service === "payment" ? 0.12 : 0.02);
    const http = { "http.request.method": route === "/checkout" ? "POST" : "GET", "http.route": route };
    const status = failed ? 500 : 200;
    spans.get(service)?.push({
      traceId,
      spanId,
      ...(parent === null ? {} : { parentSpanId: parent }),
      name: service === "inventory" ? "GET /stock" : `${http["http.request.method"]} ${route}`,
      kind: 2,
      startTimeUnixNano: nano(beginMs),
      endTimeUnixNano: nano(endMs),
      attributes: attributesOf({
        ...http,
        "http.response.status_code": status,
        "user.id": `u${Math.floor(random() * 50)}`,
      }),
      status: failed ? { code: 2, message: "card declined" } : { code: 0 },
      events: failed
        ? [
            {
              timeUnixNano: nano(endMs - 0.5),
              name: "exception",
              attributes: attributesOf({
                "exception.type": "PaymentError",
                "exception.message": `card declined ${markup}`,
                "exception.stacktrace": "PaymentError: card declined\n    at charge (payment.js:42:7)",
              }),
            },
          ]
        : [],
    });
    log(
      service,
      endMs - 0.2,
      failed ? "error" : random() < 0.06 ? "warn" : random() < 0.3 ? "debug" : "info",
      failed
        ? `${service} failed: card declined for order ${Math.floor(random() * 90_000)}`
        : `${http["http.request.method"]} ${route} answered ${status} in ${(endMs - beginMs).toFixed(1)} ms`,
      { ...http, "http.response.status_code": status },
      { traceId, spanId },
    );
    return endMs;
  };

  for (let i = 0; i < o.traces; i++) {
    const traceId = hex(32);
    traceIds.push(traceId);
    const atMs = o.endMs - o.spanMs + ((i + random()) / o.traces) * (o.spanMs - 1000);
    call("gateway", traceId, null, atMs, pick(routes));
  }
  log("gateway", o.endMs - 900, "fatal", `listener lost: ${markup}`, { "net.host.port": 8443, [`key ${markup}`]: "x" });
  log("catalogue", o.endMs - 800, "info", `a very long line ${"and on it goes ".repeat(40)}`, { page: 3 });

  return {
    requests: [
      ...[...logs].map(([service, logRecords]): OtlpRequest => ({
        path: "/v1/logs",
        body: {
          resourceLogs: [{ resource: resourceOf(service), scopeLogs: [{ scope: { name: "shop" }, logRecords }] }],
        },
      })),
      ...[...spans].map(([service, found]): OtlpRequest => ({
        path: "/v1/traces",
        body: {
          resourceSpans: [{ resource: resourceOf(service), scopeSpans: [{ scope: { name: "shop" }, spans: found }] }],
        },
      })),
      ...services.map((service) => metricsOf(service, o.endMs, o.spanMs, random, traceIds)),
    ],
    traceIds,
  };
}

/** Another id, for the same one always the same. */
const reversed = (id: string): string => id.split("").toReversed().join("");

const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/** A point every 15 seconds of a counter, a gauge, a histogram, and of who calls a database an exponential histogram. */
function metricsOf(
  service: Service,
  endMs: number,
  spanMs: number,
  random: () => number,
  traceIds: readonly string[],
): OtlpRequest {
  const startTimeUnixNano = nano(endMs - spanMs);
  const requests: object[] = [];
  const memory: object[] = [];
  const durations: object[] = [];
  const calls: object[] = [];
  let count = 0;
  for (let atMs = endMs - spanMs + 15_000; atMs <= endMs; atMs += 15_000) {
    const timeUnixNano = nano(atMs);
    const wave = 1 + Math.sin(atMs / 300_000);
    count += Math.floor(20 * wave + random() * 10);
    const attributes = attributesOf({ "http.route": "/checkout" });
    requests.push({ startTimeUnixNano, timeUnixNano, asInt: String(count), attributes });
    memory.push({ timeUnixNano, asDouble: 180e6 + 30e6 * wave + random() * 5e6, attributes: [] });
    const bucketCounts = [...bounds, 0].map((_, i) => Math.floor(random() * 10 * Math.exp(-((i - 3) ** 2) / 4)));
    const total = bucketCounts.reduce((sum, each) => sum + each, 0);
    durations.push({
      startTimeUnixNano: nano(atMs - 15_000),
      timeUnixNano,
      count: String(total),
      sum: total * 0.04,
      bucketCounts: bucketCounts.map(String),
      explicitBounds: bounds,
      attributes,
      exemplars: [
        {
          timeUnixNano,
          asDouble: 0.09,
          traceId: traceIds[Math.floor(random() * traceIds.length)],
          spanId: "00f067aa0ba902b7",
        },
      ],
    });
    // Two groups of values, of which the slower one becomes slower still.
    const drift = Math.floor(((atMs - endMs) / spanMs + 1) * 8);
    const positive = Array.from({ length: 40 }, (_, i) =>
      Math.round(30 * wave * Math.exp(-((i - 8) ** 2) / 12) + 12 * Math.exp(-((i - 22 - drift) ** 2) / 8)),
    );
    calls.push({
      startTimeUnixNano: nano(atMs - 15_000),
      timeUnixNano,
      count: String(positive.reduce((sum, each) => sum + each, 1)),
      scale: 2,
      zeroCount: "1",
      positive: { offset: -36, bucketCounts: positive.map(String) },
      attributes: attributesOf({ "db.system.name": "postgresql" }),
    });
  }
  const metrics: object[] = [
    {
      name: "http.server.requests",
      unit: "{request}",
      description: "Requests answered",
      sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: requests },
    },
    { name: "process.memory.usage", unit: "By", description: "Resident memory", gauge: { dataPoints: memory } },
    {
      name: "http.server.request.duration",
      unit: "s",
      description: "Time from the head of a request to its answer",
      histogram: { aggregationTemporality: 1, dataPoints: durations },
    },
  ];
  if (service === "inventory") {
    metrics.push({
      name: "db.client.operation.duration",
      unit: "s",
      description: "Time of calls of the database",
      exponentialHistogram: { aggregationTemporality: 1, dataPoints: calls },
    });
  }
  return {
    path: "/v1/metrics",
    body: {
      resourceMetrics: [{ resource: resourceOf(service), scopeMetrics: [{ scope: { name: "shop" }, metrics }] }],
    },
  };
}

function nano(ms: number): string {
  return (BigInt(Math.round(ms * 1000)) * 1000n).toString();
}
