/** Arbitrary OTLP requests as plain data, for every signal and kind of point. */
import * as fc from "fast-check";

import type { PlainMessage } from "./otlp-proto.js";

/** The signals by name, for `describe.each`. */
export const namedSignals = [
  { name: "logs", signal: 1 },
  { name: "metrics", signal: 2 },
  { name: "traces", signal: 3 },
] as const;

const anyText = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 24 }),
  fc.string({
    unit: fc.constantFrom('"', "\\", "\n", "\u0000", "\u001f", "a", "é", "漢", "😀"),
    maxLength: 40,
  }),
  fc.constantFrom("", "INFO", "a".repeat(200), "漢".repeat(60)),
);

const int64 = fc
  .oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt({ min: -300n, max: 300n }),
    fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 0n, 2n ** 53n, 10n ** 18n, 999999999n, 10n ** 9n),
  )
  .map(String);

const uint64 = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.bigInt({ min: 0n, max: 300n })).map(String);

const anyTime = fc
  .oneof(
    { weight: 20, arbitrary: fc.bigInt({ min: 0n, max: 2n ** 62n }) },
    { weight: 5, arbitrary: fc.constantFrom(0n, 1n, 2n ** 63n - 2n) },
    { weight: 1, arbitrary: fc.constantFrom(2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n) },
  )
  .map(String);

const anyDouble = fc.oneof(
  fc.double(),
  fc.integer().map(Number),
  fc.tuple(fc.integer(), fc.nat(9)).map(([digits, decimals]) => digits / 10 ** decimals),
  fc.constantFrom(0, -0, 1e15, 4294967295, 4294967296, 1e20, 1e21, 1e-7, 0.1, Number.NaN, Infinity, -Infinity),
);

const uint32 = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 0xffffffff }));
const int32 = fc.oneof(fc.integer({ min: -5, max: 30 }), fc.integer());

const bytes = (length: number): fc.Arbitrary<number[]> =>
  fc.array(fc.nat(255), { minLength: length, maxLength: length });

/** Mostly right, now and then empty, all zero or of a wrong length. */
const id = (length: number): fc.Arbitrary<readonly number[]> =>
  fc.oneof(
    { weight: 20, arbitrary: bytes(length) },
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.constant(Array.from({ length }, () => 0)) },
    { weight: 1, arbitrary: bytes(length - 1) },
  );

/** A message each of whose fields may be absent. */
const message = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<PlainMessage> =>
  fc.record(fields, { requiredKeys: [] });

const { value: anyValue, pair: keyValue } = fc.letrec<{ value: PlainMessage; pair: PlainMessage }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constant({}),
    anyText.map((stringValue) => ({ stringValue })),
    fc.boolean().map((boolValue) => ({ boolValue })),
    int64.map((intValue) => ({ intValue })),
    anyDouble.map((doubleValue) => ({ doubleValue })),
    fc.array(fc.nat(255), { maxLength: 20 }).map((bytesValue) => ({ bytesValue })),
    fc.array(tie("value"), { maxLength: 3 }).map((values) => ({ arrayValue: { values } })),
    fc.array(tie("pair"), { maxLength: 3 }).map((values) => ({ kvlistValue: { values } })),
  ),
  pair: message({ key: anyText, value: tie("value") }),
}));

const attributeKey = fc.oneof(
  { weight: 8, arbitrary: anyText },
  { weight: 1, arbitrary: fc.constantFrom("svc.audience", "svc.", "svc.x", "svc", "svcx") },
);
const attribute = fc.oneof(keyValue, message({ key: attributeKey, value: anyValue }));
const attributes = fc.array(attribute, { maxLength: 4 });

const resource = message({
  attributes: fc.array(
    fc.oneof(
      attribute,
      message({
        key: fc.constantFrom("service.name", "service.namespace", "host.name", "process.pid", "service.version"),
        value: anyValue,
      }),
    ),
    { maxLength: 5 },
  ),
  droppedAttributesCount: uint32,
  entityRefs: fc.array(
    message({
      schemaUrl: anyText,
      type: anyText,
      idKeys: fc.array(anyText, { maxLength: 3 }),
      descriptionKeys: fc.array(anyText, { maxLength: 3 }),
    }),
    { maxLength: 2 },
  ),
});

const scope = message({
  name: anyText,
  version: anyText,
  attributes,
  droppedAttributesCount: uint32,
});

const logRecord = message({
  timeUnixNano: anyTime,
  observedTimeUnixNano: anyTime,
  severityNumber: int32,
  severityText: fc.oneof(anyText, fc.constantFrom("INFO", "Warn", "error", "FATAL", "debug", "trace")),
  body: anyValue,
  attributes,
  droppedAttributesCount: uint32,
  flags: uint32,
  traceId: id(16),
  spanId: id(8),
  eventName: anyText,
});

const spanId = fc.oneof({ weight: 9, arbitrary: bytes(8) }, { weight: 1, arbitrary: id(8) });
const traceId = fc.oneof({ weight: 9, arbitrary: bytes(16) }, { weight: 1, arbitrary: id(16) });

const span = fc.record({ traceId, spanId }).chain((ids) =>
  message({
    traceState: anyText,
    parentSpanId: id(8),
    flags: uint32,
    name: anyText,
    kind: int32,
    startTimeUnixNano: anyTime,
    endTimeUnixNano: anyTime,
    attributes,
    droppedAttributesCount: uint32,
    events: fc.array(message({ timeUnixNano: anyTime, name: anyText, attributes, droppedAttributesCount: uint32 }), {
      maxLength: 3,
    }),
    droppedEventsCount: uint32,
    links: fc.array(
      fc.record({ traceId, spanId }).chain((linkIds) =>
        message({
          traceState: anyText,
          attributes,
          droppedAttributesCount: uint32,
          flags: uint32,
        }).map((link) => ({ ...link, ...linkIds })),
      ),
      { maxLength: 2 },
    ),
    droppedLinksCount: uint32,
    status: message({ message: anyText, code: int32 }),
  }).map((it) => ({ ...it, ...ids })),
);

const numberValue = fc.oneof(
  fc.constant({}),
  anyDouble.map((asDouble) => ({ asDouble })),
  int64.map((asInt) => ({ asInt })),
);

const exemplar = fc
  .tuple(
    message({
      filteredAttributes: attributes,
      timeUnixNano: anyTime,
      spanId: id(8),
      traceId: id(16),
    }),
    numberValue,
  )
  .map(([it, value]) => ({ ...it, ...value }));

const pointFields = {
  attributes,
  startTimeUnixNano: anyTime,
  timeUnixNano: anyTime,
  flags: uint32,
  exemplars: fc.array(exemplar, { maxLength: 2 }),
};

const numberPoint = fc.tuple(message(pointFields), numberValue).map(([it, value]) => ({ ...it, ...value }));

const histogramPoint = message({
  ...pointFields,
  count: uint64,
  sum: anyDouble,
  bucketCounts: fc.array(uint64, { maxLength: 20 }),
  explicitBounds: fc.array(anyDouble, { maxLength: 20 }),
  min: anyDouble,
  max: anyDouble,
});

const buckets = message({ offset: int32, bucketCounts: fc.array(uint64, { maxLength: 20 }) });

const exponentialPoint = message({
  ...pointFields,
  count: uint64,
  sum: anyDouble,
  scale: int32,
  zeroCount: uint64,
  positive: buckets,
  negative: buckets,
  min: anyDouble,
  max: anyDouble,
  zeroThreshold: anyDouble,
});

const { exemplars: _, ...summaryFields } = pointFields;
const summaryPoint = message({
  ...summaryFields,
  count: uint64,
  sum: anyDouble,
  quantileValues: fc.array(message({ quantile: anyDouble, value: anyDouble }), { maxLength: 3 }),
});

const temporality = fc.nat(3);
const points = (point: fc.Arbitrary<PlainMessage>): fc.Arbitrary<PlainMessage[]> => fc.array(point, { maxLength: 3 });

const metric = fc
  .tuple(
    message({ name: anyText, description: anyText, unit: anyText, metadata: attributes }),
    fc.oneof(
      fc.constant({}),
      message({ dataPoints: points(numberPoint) }).map((gauge) => ({ gauge })),
      message({
        dataPoints: points(numberPoint),
        aggregationTemporality: temporality,
        isMonotonic: fc.boolean(),
      }).map((sum) => ({ sum })),
      message({ dataPoints: points(histogramPoint), aggregationTemporality: temporality }).map((histogram) => ({
        histogram,
      })),
      message({ dataPoints: points(exponentialPoint), aggregationTemporality: temporality }).map(
        (exponentialHistogram) => ({ exponentialHistogram }),
      ),
      message({ dataPoints: points(summaryPoint) }).map((summary) => ({ summary })),
    ),
  )
  .map(([it, data]) => ({ ...it, ...data }));

const request = (
  entries: string,
  scopes: string,
  items: string,
  item: fc.Arbitrary<PlainMessage>,
): fc.Arbitrary<PlainMessage> =>
  message({
    [entries]: fc.array(
      message({
        resource,
        schemaUrl: anyText,
        [scopes]: fc.array(message({ scope, schemaUrl: anyText, [items]: fc.array(item, { maxLength: 4 }) }), {
          maxLength: 2,
        }),
      }),
      { maxLength: 3 },
    ),
  });

/** Arbitrary requests by signal. */
export const arbitraryRequest: Record<1 | 2 | 3, fc.Arbitrary<PlainMessage>> = {
  1: request("resourceLogs", "scopeLogs", "logRecords", logRecord),
  2: request("resourceMetrics", "scopeMetrics", "metrics", metric),
  3: request("resourceSpans", "scopeSpans", "spans", span),
};
