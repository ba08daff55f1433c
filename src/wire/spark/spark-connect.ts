/**
 * The few messages of Spark Connect that run a query (spark/connect/base.proto, relations.proto, commands.proto):
 * requests as bytes, and what matters of the responses.
 */
import { bytesField, eachField, onlyBytes, varintField } from "../protobuf-fields.js";

/** Whose session it is. */
export interface SparkSession {
  /** A UUID. */
  readonly sessionId: string;
  readonly userId: string;
}

const clientType = "telemetry-service";

function head({ sessionId, userId }: SparkSession): Buffer[] {
  return [bytesField(1, sessionId), bytesField(2, bytesField(1, userId))];
}

/** Parquet objects, by their URIs, as one relation. */
export function parquetRelation(uris: readonly string[]): Uint8Array {
  const source = Buffer.concat([bytesField(1, "parquet"), ...uris.map((uri) => bytesField(4, uri))]);
  return bytesField(2, bytesField(2, source));
}

/** The rows of an SQL text. */
export function sqlRelation(sql: string): Uint8Array {
  return bytesField(10, bytesField(1, sql));
}

/** A plan that gives a relation a name within the session. */
export function viewPlan(name: string, relation: Uint8Array): Uint8Array {
  const command = Buffer.concat([bytesField(1, relation), bytesField(2, name), varintField(4, 1n)]);
  return bytesField(2, bytesField(3, command));
}

/** A plan that brings the rows of a relation. */
export function rowsPlan(relation: Uint8Array): Uint8Array {
  return bytesField(1, relation);
}

/** ExecutePlanRequest. @param operationId a UUID, which an interrupt may name */
export function encodeExecutePlan(session: SparkSession, operationId: string, plan: Uint8Array): Buffer {
  return Buffer.concat([...head(session), bytesField(3, plan), bytesField(4, clientType), bytesField(6, operationId)]);
}

/** InterruptRequest for everything of a session. */
export function encodeInterruptAll(session: SparkSession): Buffer {
  return Buffer.concat([...head(session), bytesField(3, clientType), varintField(4, 1n)]);
}

/** ReleaseSessionRequest. */
export function encodeReleaseSession(session: SparkSession): Buffer {
  return Buffer.concat([...head(session), bytesField(3, clientType)]);
}

/** ConfigRequest that sets keys, and is not refused for one that the server does not know. */
export function encodeSetConfig(session: SparkSession, pairs: Readonly<Record<string, string>>): Buffer {
  const set = Object.entries(pairs).map(([key, value]) =>
    bytesField(1, Buffer.concat([bytesField(1, key), bytesField(2, value)])),
  );
  const operation = bytesField(1, Buffer.concat([...set, varintField(2, 1n)]));
  return Buffer.concat([...head(session), bytesField(3, operation), bytesField(4, clientType)]);
}

/** What one ExecutePlanResponse says. */
export interface SparkResponse {
  /** Of the server's session: another one is another session, without our views. */
  readonly serverSession: string;
  /** Rows as an Arrow IPC stream of their own, schema first; empty when the response has none. */
  readonly arrow: Uint8Array;
  /** As the server counts them. */
  readonly rows: number;
  /** Messages that this stream is spread over; 0 or 1: it is whole. */
  readonly parts: number;
}

/** @throws ServiceError BAD_REQUEST for what is no protobuf */
export function decodeExecutePlanResponse(message: Uint8Array): SparkResponse {
  const serverSession = Buffer.from(onlyBytes(message, 15)).toString("utf8");
  const batch = onlyBytes(message, 2);
  let rows = 0;
  let parts = 0;
  eachField(
    batch,
    () => undefined,
    (field, number) => {
      if (field === 1) {
        rows = number;
      } else if (field === 5) {
        parts = number;
      }
    },
  );
  return { serverSession, arrow: onlyBytes(batch, 2), rows, parts };
}
