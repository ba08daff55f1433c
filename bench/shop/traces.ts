/** Traces of the shop: what one request does, as spans and log records. The same seed makes the same traces. */
import { seededRandom } from "../../test/helpers/seeded-random.js";
import { type Instance, instanceAt, isBad, shopNs, timeOfShare } from "./fleet.js";
import { type Endpoint, endpoints, entries, failures, type Step } from "./services.js";

/** A value of an attribute. */
export type Value = string | number;
/** Attributes in order. */
export type Attributes = readonly (readonly [key: string, value: Value])[];

/** What all spans of one kind of work have in common. */
export interface Operation {
  readonly name: string;
  /** As OTLP numbers kinds: 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: 1 | 2 | 3 | 4 | 5;
  readonly attributes: Attributes;
}

/** The two halves of a span's id. */
type SpanId = readonly [high: number, low: number];

/** A span. Times are nanoseconds since the shop's begin. */
export interface ShopSpan {
  readonly instance: Instance;
  readonly operation: Operation;
  readonly id: SpanId;
  readonly parent: ShopSpan | null;
  readonly startNs: number;
  endNs: number;
  /** As OTLP numbers them: 0 unset, 2 error. */
  status: 0 | 2;
  message: string | null;
  /** What differs from span to span. */
  attributes: Attributes;
  /** Type and message of what was thrown in it. */
  exception: readonly [type: string, message: string] | null;
}

/** Severity numbers of OTLP. */
export const severities = { debug: 5, info: 9, warn: 13, error: 17 } as const;

/** A log record. */
export interface ShopLog {
  readonly instance: Instance;
  readonly timeNs: number;
  readonly level: keyof typeof severities;
  readonly body: string;
  readonly attributes: Attributes;
  readonly span: ShopSpan | null;
}

/** What one request did. */
export interface ShopTrace {
  /** Its id, 32 bits each. */
  readonly id: readonly [number, number, number, number];
  readonly spans: readonly ShopSpan[];
  readonly logs: readonly ShopLog[];
}

/** A trace that every shop has, of a nightly job with many spans. */
export const bigTraceId = "5b8aa5a2d2c872e8321cf37308d69df2";

interface Prepared {
  readonly endpoint: Endpoint;
  readonly server: Operation;
  readonly client: Operation;
  readonly steps: readonly { readonly step: Step; readonly operation: Operation | null }[];
}

const prepared = new Map(endpoints.map((endpoint) => [`${endpoint.service} ${endpoint.name}`, prepare(endpoint)]));

function prepare(endpoint: Endpoint): Prepared {
  const { service, name, protocol, steps } = endpoint;
  const [first = "", second = ""] = name.split(/[ /]/u, 2);
  const shared: Attributes =
    protocol === "http"
      ? [
          ["http.request.method", first],
          ["server.address", `${service}.shop.example`],
          ["server.port", 8080],
        ]
      : protocol === "rpc"
        ? [
            ["rpc.system", "grpc"],
            ["rpc.service", first],
            ["rpc.method", second],
            ["server.address", `${service}.shop.example`],
          ]
        : [
            ["messaging.system", "kafka"],
            ["messaging.destination.name", name],
          ];
  const route = name.slice(name.indexOf(" ") + 1);
  return {
    endpoint,
    server: {
      name: protocol === "messaging" ? `process ${name}` : name,
      kind: protocol === "messaging" ? 5 : 2,
      attributes: protocol === "http" ? [...shared, ["http.route", route], ["url.scheme", "https"]] : shared,
    },
    client: {
      name: protocol === "http" ? first : protocol === "rpc" ? name : `send ${name}`,
      kind: protocol === "messaging" ? 4 : 3,
      attributes: protocol === "http" ? [...shared, ["url.template", route]] : shared,
    },
    steps: steps.map((step) => ({ step, operation: operationOf(step) })),
  };
}

function operationOf(step: Step): Operation | null {
  if ("work" in step) {
    return { name: step.work, kind: 1, attributes: [["code.function.name", step.work.replaceAll(" ", "_")]] };
  }
  if ("query" in step) {
    const verb = step.query.slice(0, step.query.indexOf(" "));
    return {
      name: `${verb} ${step.table}`,
      kind: 3,
      attributes: [
        ["db.system.name", step.system],
        ["db.namespace", "shop"],
        ["db.operation.name", verb],
        ["db.collection.name", step.table],
        ["db.query.text", step.query],
        ["server.address", `${step.system}.shop.example`],
      ],
    };
  }
  return null;
}

const words = "boots kettle lamp tent scarf mug chair rope stove jacket bottle helmet blanket torch compass".split(" ");
const fixed: Attributes = [];

/** Makes the traces of a shop: the `index`-th of `count`, ordered by time. */
export class TraceMaker {
  #random: () => number = Math.random;
  #spans: ShopSpan[] = [];
  #logs: ShopLog[] = [];
  #user = "";
  readonly #seed: number;
  readonly #totals: readonly number[];

  constructor(seed: number) {
    this.#seed = seed;
    let sum = 0;
    this.#totals = entries.map(([, weight]) => (sum += weight));
  }

  /** A request like those of the shop. */
  trace(index: number, count: number): ShopTrace {
    this.#begin(index);
    const random = this.#random;
    const startNs = Math.floor(Math.min(timeOfShare((index + random()) / count), shopNs - 60e9));
    const choice = random() * (this.#totals.at(-1) ?? 0);
    const [name] = entries[this.#totals.findIndex((total) => choice < total)] ?? entries[0] ?? [""];
    const id = [this.#bits(), this.#bits(), this.#bits(), this.#bits()] as const;
    this.#serve(prepared.get(name) as Prepared, null, startNs);
    return { id, spans: this.#spans, logs: this.#logs };
  }

  /** The trace of the nightly job: a root, and a hundred spans for each batch. */
  bigTrace(batches: number): ShopTrace {
    this.#begin(0x7fff_ffff);
    const startNs = shopNs - 40 * 60e9;
    const root = this.#span("orders", { name: "nightly report", kind: 1, attributes: fixed }, null, startNs);
    const step = {
      name: "SELECT orders",
      kind: 3,
      attributes: prepared.get("orders POST /orders")?.steps[0]?.operation?.attributes ?? fixed,
    } as const;
    let at = startNs;
    for (let batch = 0; batch < batches; batch++) {
      const span = this.#span("orders", { name: "batch", kind: 1, attributes: fixed }, root, at);
      for (let order = 0; order < 33; order++) {
        const query = this.#span("orders", step, span, at);
        query.endNs = at + 3e6;
        const call = this.#span(
          "orders",
          (prepared.get("users GET /users/{id}") as Prepared).client,
          span,
          query.endNs,
        );
        const answer = this.#span(
          "users",
          (prepared.get("users GET /users/{id}") as Prepared).server,
          call,
          query.endNs + 1e6,
        );
        answer.endNs = answer.startNs + 2e6;
        call.endNs = answer.endNs + 1e6;
        at = call.endNs + 0.5e6;
      }
      span.endNs = at;
      this.#log(span, at, "info", `batch ${batch} of 33 orders written`, [["batch.number", batch]]);
      at += 2e6;
    }
    root.endNs = at;
    const id = bigTraceId.match(/.{8}/gu)?.map((part) => Number.parseInt(part, 16)) ?? [];
    return { id: id as unknown as ShopTrace["id"], spans: this.#spans, logs: this.#logs };
  }

  /** A log record outside of traces. */
  background(index: number, count: number): ShopLog {
    this.#begin(-1 - index);
    const random = this.#random;
    const timeNs = Math.floor(((index + random()) / count) * shopNs);
    const { endpoint } = [...prepared.values()][Math.floor(random() * prepared.size)] as Prepared;
    const instance = instanceAt(endpoint.service, timeNs, random());
    const kind = random();
    const [level, template] =
      kind < 0.5
        ? (["debug", "garbage collection of {number} kB took {count} ms"] as const)
        : kind < 0.9
          ? (["info", 'job "sweep-{word}" removed {count} rows'] as const)
          : kind < 0.998
            ? (["warn", "pool has {count} connections of 40 in use"] as const)
            : (["error", "job {uuid} failed: disk of {address} is full"] as const);
    return {
      instance,
      timeNs,
      level,
      body: this.#fill(template, 0, 0),
      attributes: [["thread.id", 1 + Math.floor(random() * 16)]],
      span: null,
    };
  }

  #begin(index: number): void {
    this.#random = seededRandom(Math.imul(this.#seed + 1, 0x9e37_79b1) ^ Math.imul(index + 1, 0x85eb_ca6b));
    this.#spans = [];
    this.#logs = [];
    this.#user = `u${1000 + Math.floor(this.#random() ** 2 * 30_000)}`;
  }

  #bits(): number {
    return Math.floor(this.#random() * 0xffff_ffff) + 1;
  }

  #span(service: string, operation: Operation, parent: ShopSpan | null, startNs: number): ShopSpan {
    const instance =
      parent !== null && parent.instance.service.name === service
        ? parent.instance
        : instanceAt(service, startNs, this.#random());
    const span: ShopSpan = {
      instance,
      operation,
      id: [this.#bits(), this.#bits()],
      parent,
      startNs,
      endNs: startNs,
      status: 0,
      message: null,
      attributes: fixed,
      exception: null,
    };
    this.#spans.push(span);
    return span;
  }

  /** Nanoseconds that take `ms` at the median, sometimes much longer. */
  #take(ms: number): number {
    const random = this.#random;
    const slow = random() < 0.01 ? 8 : 1;
    return Math.floor(ms * (0.5 - 0.72 * Math.log(1 - random())) * slow * 1e6);
  }

  /** What a service does for a request; returns its span. */
  #serve({ endpoint, server, steps }: Prepared, parent: ShopSpan | null, startNs: number): ShopSpan {
    const random = this.#random;
    const span = this.#span(endpoint.service, server, parent, startNs);
    const bad = isBad(span.instance);
    let at = startNs + this.#take(endpoint.ms * (bad ? 12 : 1)) / 2;
    let broken: ShopSpan | null = null;
    for (const { step, operation } of steps) {
      if (broken !== null) {
        break;
      }
      if (step.share !== undefined && random() >= step.share) {
        continue;
      }
      const done = this.#step(span, step, operation, Math.floor(at));
      at = done.endNs + 2e5;
      broken = done.status === 2 && random() < 0.8 ? done : null;
    }
    span.endNs = Math.floor(at + this.#take(endpoint.ms * (bad ? 12 : 1)) / 2);
    if (broken !== null) {
      span.status = 2;
      span.message = `${broken.operation.name} failed`;
    } else if (random() < (bad ? 0.3 : 0.002)) {
      this.#fail(span);
    }
    this.#answer(span, endpoint);
    return span;
  }

  /** One step of a request; returns the span of the caller's side. */
  #step(span: ShopSpan, step: Step, operation: Operation | null, at: number): ShopSpan {
    if ("work" in step || "query" in step) {
      const inner = this.#span(span.instance.service.name, operation as Operation, span, at);
      inner.endNs = at + this.#take(step.ms);
      if ("query" in step && inner.endNs - at > 8e6 * step.ms) {
        this.#log(
          inner,
          inner.endNs,
          "warn",
          this.#fill(`slow query on "${step.table}": {ms} ms`, inner.endNs - at, 0),
          [["db.system.name", step.system]],
        );
      } else if (this.#random() < 0.4) {
        this.#log(inner, at, "debug", this.#fill("step {count} of {number} begins", 0, 0), fixed);
      }
      return inner;
    }
    const target = prepared.get("call" in step ? step.call : step.publish) as Prepared;
    const client = this.#span(span.instance.service.name, target.client, span, at);
    if ("publish" in step) {
      client.endNs = at + this.#take(2);
      this.#serve(target, client, client.endNs + this.#take(40));
      return client;
    }
    const server = this.#serve(target, client, at + 3e5);
    client.endNs = server.endNs + 3e5;
    client.status = server.status;
    client.message = server.message;
    client.attributes =
      target.endpoint.protocol === "http"
        ? [["http.response.status_code", server.status === 2 ? 500 : 200]]
        : [["rpc.grpc.status_code", server.status === 2 ? 13 : 0]];
    return client;
  }

  #fail(span: ShopSpan): void {
    const [type = "", template = ""] = failures[span.instance.service.name] ?? [];
    const message = this.#fill(template, span.endNs - span.startNs, 500);
    span.status = 2;
    span.message = message;
    span.exception = [type, message];
  }

  /** Attributes and log records of a request that is over. */
  #answer(span: ShopSpan, endpoint: Endpoint): void {
    const failed = span.status === 2;
    const code = failed ? (span.exception === null ? 502 : 500) : this.#random() < 0.015 ? 404 : 200;
    span.attributes =
      endpoint.protocol === "http"
        ? [
            ["http.response.status_code", code],
            ["user.id", this.#user],
          ]
        : endpoint.protocol === "rpc"
          ? [
              ["rpc.grpc.status_code", failed ? 13 : 0],
              ["user.id", this.#user],
            ]
          : [["messaging.kafka.offset", Math.floor(span.startNs / 1e6)]];
    const tookNs = span.endNs - span.startNs;
    if (span.exception !== null) {
      const [type, message] = span.exception;
      this.#log(span, span.endNs, "error", `${endpoint.name} failed: ${message}`, [
        ["exception.type", type],
        ["exception.message", message],
        ["exception.stacktrace", `${type}: ${message}\n  at handle (${endpoint.service}.js:42:7)`],
      ]);
    } else if (failed) {
      this.#log(span, span.endNs, "error", `${endpoint.name} failed: ${span.message ?? ""}`, [["user.id", this.#user]]);
    } else {
      this.#log(span, span.endNs, "info", this.#fill(endpoint.says, tookNs, code), [
        ["user.id", this.#user],
        ["duration_ms", Math.round(tookNs / 1e4) / 100],
      ]);
    }
    if (this.#random() < 0.5) {
      this.#log(span, span.startNs, "debug", this.#fill("request of {user} has {count} headers", 0, 0), fixed);
    }
  }

  #log(span: ShopSpan, timeNs: number, level: ShopLog["level"], body: string, attributes: Attributes): void {
    this.#logs.push({ instance: span.instance, timeNs, level, body, attributes, span });
  }

  /** A message with what varies in it. */
  #fill(template: string, tookNs: number, code: number): string {
    const random = this.#random;
    return template.replaceAll(/\{(\w+)\}/gu, (_, name: string) => {
      switch (name) {
        case "ms":
          return (tookNs / 1e6).toFixed(1);
        case "status":
          return String(code);
        case "count":
          return String(1 + Math.floor(random() * 40));
        case "word":
          return words[Math.floor(random() * words.length)] ?? "";
        case "user":
          return this.#user;
        case "address":
          return `10.0.${Math.floor(random() * 8)}.${1 + Math.floor(random() * 250)}:5432`;
        case "uuid":
          return [0, 0, 0, 0]
            .map(() => this.#bits().toString(16).padStart(8, "0"))
            .join("")
            .replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
        default:
          return String(1 + Math.floor(random() * 99_999));
      }
    });
  }
}

/** Sizes of a shop, and how many traces and other log records it has. */
interface ShopSize {
  readonly traces: number;
  readonly background: number;
  readonly bigBatches: number;
}

/** How many traces hold this many spans, and how many more log records it takes. */
export function sizeOf(seed: number, spans: number, logs: number, bigSpans: number): ShopSize {
  const maker = new TraceMaker(seed);
  const sample = 2000;
  let sampleSpans = 0;
  let sampleLogs = 0;
  for (let i = 0; i < sample; i++) {
    const trace = maker.trace(i, sample);
    sampleSpans += trace.spans.length;
    sampleLogs += trace.logs.length;
  }
  const bigBatches = Math.max(1, Math.round(bigSpans / 100));
  const traces = Math.max(1, Math.round((Math.max(0, spans - bigBatches * 100) * sample) / sampleSpans));
  return { traces, bigBatches, background: Math.max(1, Math.round(logs - (traces * sampleLogs) / sample)) };
}
