/** Answers to the everyday questions of docs/questions.md over 8 days of a shop, worked out without SQL. */
import { groupBy, hourOf, mean, type ShopAnswer, sum } from "./shop-answer.js";
import { metricAnswers } from "./shop-metric-answers.js";
import { attributeOf, bigTraceId, type ModelSpan, msOf, type ShopModel, shopNs, valueOf } from "./shop-model.js";

const msOfSpan = (span: ModelSpan): number => (span.endNs - span.startNs) / 1e6;
const isError = (span: ModelSpan): number => (span.status === 2 ? 1 : 0);

const kindName = ["", "internal", "server", "client", "producer", "consumer"] as const;

/** A quantile between the two values around it. */
function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = q * (sorted.length - 1);
  const below = sorted[Math.floor(place)] ?? 0;
  return below + ((sorted[Math.ceil(place)] ?? 0) - below) * (place % 1);
}

/** What the messages of the shop have in common, by what they are made of. */
function patternOf(body: string): string {
  return body
    .replaceAll(/"[^"]*"|'[^']*'/gu, "<str>")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gu, "<id>")
    .replaceAll(/\b\d+(?:\.\d+)*(?::\d+)?\b/gu, "<num>");
}

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
    rows: groupBy(of("payment", servers(model.spans)), ({ startNs }) => String(hourOf(model, startNs))).map(
      (group) => ({
        hour: hourOf(model, group[0]?.startNs ?? 0),
        calls: group.length,
        errors: sum(group.map(isError)),
      }),
    ),
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
  5: ({ spans }) => {
    const own = spans.filter(({ traceId }) => traceId === bigTraceId);
    const byId = new Map(own.map((span) => [span.id.join(), span]));
    const parentOf = ({ parent }: ModelSpan): ModelSpan | undefined => byId.get(parent?.id.join() ?? "");
    const children = new Map(
      groupBy(own, (span) => parentOf(span)?.id.join() ?? "").map((group) => [
        parentOf(group[0] as ModelSpan)?.id.join() ?? "",
        group,
      ]),
    );
    const depthOf = (span: ModelSpan): number => {
      const parent = parentOf(span);
      return parent === undefined ? 0 : 1 + depthOf(parent);
    };
    const begin = Math.min(...own.map(({ startNs }) => startNs));
    return {
      keys: ["depth", "name", "start_ms"],
      order: ["start_ms", 1],
      rows: own.map((span) => ({
        depth: depthOf(span),
        service_name: span.instance.service.name,
        name: span.operation.name,
        kind_name: kindName[span.operation.kind],
        start_ms: (span.startNs - begin) / 1e6,
        duration_ms: msOfSpan(span),
        // Children of the nightly job come one after the other.
        self_ms: msOfSpan(span) - sum((children.get(span.id.join()) ?? []).map(msOfSpan)),
        status: span.status === 2 ? "error" : "unset",
      })),
    };
  },
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
  7: ({ spans }) => {
    const byId = new Map(spans.map((span) => [span.id.join(), span]));
    const serviceOf = ({ instance }: ModelSpan): string => instance.service.name;
    const called = spans.flatMap((span) => {
      const parent = byId.get(span.parent?.id.join() ?? "");
      return parent !== undefined && [2, 5].includes(span.operation.kind)
        ? [{ edge: [serviceOf(parent), serviceOf(span)], error: isError(span) + isError(parent) > 0, span }]
        : [];
    });
    const asked = spans.flatMap((span) => {
      const system = attributeOf(span, "db.system.name");
      return system === null ? [] : [{ edge: [serviceOf(span), String(system)], error: isError(span) > 0, span }];
    });
    return {
      keys: ["caller", "callee"],
      order: ["calls", -1],
      rows: groupBy([...called, ...asked], ({ edge }) => edge.join()).map((group) => ({
        caller: group[0]?.edge[0] ?? "",
        callee: group[0]?.edge[1] ?? "",
        calls: group.length,
        errors: group.filter(({ error }) => error).length,
        p50_ms: quantile(
          group.map(({ span }) => msOfSpan(span)),
          0.5,
        ),
        p95_ms: quantile(
          group.map(({ span }) => msOfSpan(span)),
          0.95,
        ),
      })),
    };
  },
  8: (model) => ({
    keys: ["trace_id"],
    order: ["time", -1],
    rows: groupBy(model.spans, ({ traceId }) => traceId)
      .filter((group) => group.some((span) => isError(span) > 0))
      .map((group) => {
        const begin = Math.min(...group.map(({ startNs }) => startNs));
        const root = group.find(({ parent }) => parent === null);
        return {
          time: msOf(model, begin),
          trace_id: group[0]?.traceId ?? "",
          root_service: root?.instance.service.name ?? "",
          root_name: root?.operation.name ?? "",
          spans: group.length,
          errors: sum(group.map(isError)),
          duration_ms: (Math.max(...group.map(({ endNs }) => endNs)) - begin) / 1e6,
        };
      })
      .toSorted((a, b) => b.time - a.time)
      .slice(0, 20),
  }),
  9: (model) => {
    const all = [
      ...model.spans.flatMap(({ exception, instance, endNs }) =>
        exception === null ? [] : [{ service: instance.service.name, type: exception[0], atNs: endNs }],
      ),
      ...model.logs.flatMap(({ attributes, instance, timeNs }) => {
        const type = valueOf(attributes, "exception.type");
        return type === null ? [] : [{ service: instance.service.name, type: String(type), atNs: timeNs }];
      }),
    ];
    return {
      keys: ["service_name", "type"],
      order: ["times", -1],
      rows: groupBy(all, ({ service }) => service).map((group) => ({
        service_name: group[0]?.service ?? "",
        type: group[0]?.type ?? "",
        times: group.length,
        latest: msOf(model, Math.max(...group.map(({ atNs }) => atNs))),
      })),
    };
  },
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
  12: (model) => ({
    keys: ["service_name", "pattern"],
    order: ["entries", -1],
    rows: groupBy(
      model.logs.filter(({ level }) => level === "error" || level === "warn"),
      ({ instance, body }) => `${instance.service.name} ${patternOf(body)}`,
    )
      .map((group) => ({
        service_name: group[0]?.instance.service.name ?? "",
        pattern: patternOf(group[0]?.body ?? ""),
        entries: group.length,
      }))
      .toSorted((a, b) => b.entries - a.entries)
      .slice(0, 20),
  }),
  13: (model) => ({
    keys: ["pattern"],
    order: ["since", -1],
    rows: groupBy(
      model.logs.filter(({ level }) => level === "error"),
      ({ body }) => patternOf(body),
    )
      .map((group) => ({
        pattern: patternOf(group[0]?.body ?? ""),
        since: msOf(model, Math.min(...group.map(({ timeNs }) => timeNs))),
        entries: group.length,
      }))
      .toSorted((a, b) => b.since - a.since)
      .slice(0, 20),
  }),
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
  19: (model) => ({
    keys: ["service_instance_id"],
    order: ["latest", 1],
    rows: groupBy(model.logs, ({ instance }) => instance.id).map((group) => ({
      service_name: group[0]?.instance.service.name ?? "",
      service_instance_id: group[0]?.instance.id ?? "",
      latest: msOf(model, Math.max(...group.map(({ timeNs }) => timeNs))),
    })),
  }),
  ...metricAnswers,
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

function text(value: string | number | null): string | null {
  return value === null ? null : String(value);
}
