/** Answers to the everyday questions of docs/sql.md over 8 days of a shop, worked out without SQL. */
import { attributeOf, bigTraceId, type ModelSpan, msOf, type ShopModel, shopNs, valueOf } from "./shop-model.js";

/** A row by column. Numbers are compared to ten digits; a function says whether a value will do. */
export type AnswerRow = Readonly<
  Record<string, number | string | null | readonly string[] | ((found: unknown) => boolean)>
>;

/** What the answer to a question has to be. */
export interface ShopAnswer {
  /** Columns that tell rows apart; none: there is one row. */
  readonly keys: readonly string[];
  /** The column by which the rows come, 1: upwards. */
  readonly order?: readonly [column: string, direction: 1 | -1];
  readonly rows: readonly AnswerRow[];
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) {
      groups.set(keyOf(item), [item]);
    } else {
      group.push(item);
    }
  }
  return [...groups.values()];
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;
const msOfSpan = (span: ModelSpan): number => (span.endNs - span.startNs) / 1e6;
const isError = (span: ModelSpan): number => (span.status === 2 ? 1 : 0);

/** Whether a value is about a quantile: as many of the values lie below it as should, give or take two hundredths. */
function about(values: readonly number[], q: number): (found: unknown) => boolean {
  const slack = 0.02 + 1.5 / values.length;
  const shareOf = (test: (value: number) => boolean): number => values.filter(test).length / values.length;
  return (found) =>
    typeof found === "number" &&
    shareOf((value) => value < found - 1e-6) <= q + slack &&
    shareOf((value) => value <= found + 1e-6) >= q - slack;
}

/** Answers by the number of the question. */
export const shopAnswers: Readonly<Record<number, (model: ShopModel) => ShopAnswer>> = {
  1: ({ spans }) => ({
    keys: ["service_name"],
    order: ["error_percent", -1],
    rows: groupBy(servers(spans), ({ instance }) => instance.service.name).map((group) => ({
      service_name: group[0]?.instance.service.name ?? "",
      requests: group.length,
      error_percent: 100 * mean(group.map(isError)),
    })),
  }),
  2: ({ spans }) => ({
    keys: ["service_name", "name"],
    order: ["p95_ms", -1],
    rows: groupBy(servers(spans), ({ instance, operation }) => `${instance.service.name} ${operation.name}`).map(
      (group) => ({
        service_name: group[0]?.instance.service.name ?? "",
        name: group[0]?.operation.name ?? "",
        requests: group.length,
        p95_ms: about(group.map(msOfSpan), 0.95),
      }),
    ),
  }),
  3: (model) => ({
    keys: ["hour"],
    order: ["hour", 1],
    rows: groupBy(of("payment", servers(model.spans)), ({ startNs }) => hourOf(model, startNs)).map((group) => ({
      hour: Number(hourOf(model, group[0]?.startNs ?? 0)),
      calls: group.length,
      errors: sum(group.map(isError)),
    })),
  }),
  4: (model) => ({
    keys: ["trace_id"],
    order: ["duration_ms", -1],
    rows: model.spans
      .filter(({ parent }) => parent === null)
      .toSorted((a, b) => msOfSpan(b) - msOfSpan(a))
      .slice(0, 20)
      .map((span) => ({
        time: msOf(model, span.startNs),
        trace_id: span.traceId,
        service_name: span.instance.service.name,
        name: span.operation.name,
        duration_ms: msOfSpan(span),
        status: span.status === 2 ? "error" : "unset",
      })),
  }),
  6: (model) => ({
    keys: ["time"],
    order: ["time", 1],
    rows: model.logs
      .filter(({ traceId }) => traceId === bigTraceId)
      .map(({ timeNs, instance, level, body }) => ({
        time: msOf(model, timeNs),
        service_name: instance.service.name,
        level_name: level,
        msg: body,
      })),
  }),
  10: (model) => ({
    keys: ["time"],
    order: ["time", -1],
    rows: of("payment", model.logs)
      .filter(({ level }) => level === "error")
      .toSorted((a, b) => b.timeNs - a.timeNs)
      .slice(0, 50)
      .map(({ timeNs, body, traceId, attributes }) => ({
        time: msOf(model, timeNs),
        msg: body,
        trace_id: traceId,
        type: valueOf(attributes, "exception.type"),
      })),
  }),
  11: (model) => {
    const errors = model.logs.filter(({ level }) => level === "error");
    const counts = new Map(
      groupBy(errors, ({ timeNs }) => String(Math.floor(timeNs / 60e9))).map((group) => [
        Math.floor((group[0]?.timeNs ?? 0) / 60e9),
        group.length,
      ]),
    );
    return {
      keys: ["time"],
      order: ["time", 1],
      rows: Array.from({ length: shopNs / 60e9 }, (_, minute) => ({
        time: msOf(model, minute * 60e9),
        errors: counts.get(minute) ?? 0,
      })),
    };
  },
  14: (model) => ({
    keys: ["time"],
    order: ["time", -1],
    rows: model.logs
      .filter(({ body }) => body.includes("refused"))
      .toSorted((a, b) => b.timeNs - a.timeNs)
      .slice(0, 50)
      .map(({ timeNs, instance, level, body }) => ({
        time: msOf(model, timeNs),
        service_name: instance.service.name,
        level_name: level,
        msg: body,
      })),
  }),
  15: ({ spans, logs, series }) => ({
    keys: ["key_name"],
    rows: [
      {
        audience: "public",
        key_name: "test",
        requests: (found) => Number(found) > 100,
        bytes: (found) => Number(found) > 1e6,
        records: spans.length + logs.length + sum(series.map(({ points }) => points.length)),
      },
    ],
  }),
  16: ({ spans }) => ({
    keys: ["route", "code"],
    rows: groupBy(
      servers(spans),
      (span) => `${attributeOf(span, "http.route")} ${attributeOf(span, "http.response.status_code")}`,
    ).map((group) => ({
      route: text(attributeOf(group[0] as ModelSpan, "http.route")),
      code: attributeOf(group[0] as ModelSpan, "http.response.status_code"),
      calls: group.length,
    })),
  }),
  17: ({ spans }) => ({
    keys: ["query"],
    order: ["ms", -1],
    rows: groupBy(
      spans.filter(({ operation }) => operation.kind === 3),
      (span) => String(attributeOf(span, "db.query.text")),
    )
      .map((group) => ({
        query: text(attributeOf(group[0] as ModelSpan, "db.query.text")),
        calls: group.length,
        ms: sum(group.map(msOfSpan)),
      }))
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, 20),
  }),
  18: (model) => ({
    keys: ["service_version"],
    order: ["since", 1],
    rows: groupBy(of("payment", model.spans), ({ instance }) => instance.version).map((group) => ({
      service_version: group[0]?.instance.version ?? "",
      since: msOf(model, Math.min(...group.map(({ startNs }) => startNs))),
      errors: mean(group.map(isError)),
      ms: mean(group.map(msOfSpan)),
    })),
  }),
  23: (model) => {
    const points = model.series
      .filter(({ metric }) => metric.name === "process.memory.usage")
      .flatMap(({ instance, points }) => points.map((point) => ({ ...point, service: instance.service.name })));
    return {
      keys: ["hour", "service_name"],
      order: ["hour", 1],
      rows: groupBy(points, ({ service, timeNs }) => `${service} ${hourOf(model, timeNs)}`).map((group) => ({
        hour: Number(hourOf(model, group[0]?.timeNs ?? 0)),
        service_name: group[0]?.service ?? "",
        bytes: mean(group.map(({ value }) => value)),
      })),
    };
  },
};

function servers(spans: readonly ModelSpan[]): ModelSpan[] {
  return spans.filter(({ operation }) => operation.kind === 2);
}

function of<T extends { readonly instance: { readonly service: { readonly name: string } } }>(
  service: string,
  items: readonly T[],
): T[] {
  return items.filter(({ instance }) => instance.service.name === service);
}

/** Begin of the hour that a time is in, milliseconds since 1970, as a key. */
function hourOf(model: ShopModel, ns: number): string {
  return String(Math.floor(msOf(model, ns) / 3.6e6) * 3.6e6);
}

function text(value: string | number | null): string | null {
  return value === null ? null : String(value);
}
