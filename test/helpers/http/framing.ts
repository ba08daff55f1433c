/**
 * Framing cases: bytes that a stranger may send, and what RFC 9110 and RFC 9112 let a server do then.
 *
 * What a server did is written as one short text: the statuses in order, then `.` when it ended the connection
 * and `?` when it did neither that nor answer a request that came in whole. So `200` is one answer on a
 * connection that goes on, `400.` a refusal that ends it, `.` an end without a word, `?` a client left hanging.
 * `ok` is the status of {@link FramingTarget.ok}.
 */
import { setTimeout as sleep } from "node:timers/promises";

import type { HttpDriver } from "../../../src/routes/http/seam.js";
import { RawConnection } from "./raw-http.js";

/** What one kind of listener takes. */
export interface FramingTarget {
  /** Takes POST. */
  readonly path: string;
  /** What such a POST needs beside its framing: a credential, a type. */
  readonly fields: readonly string[];
  /** 17 characters, JSON. */
  readonly body: string;
  /** The status that answers it. */
  readonly ok: number;
  /** It is answered before its body is read. */
  readonly early: boolean;
}

/** Sent by itself; `finish` says that nothing more will be sent. */
type Piece = string | Buffer | typeof finish;

/** The client closes its side. */
export const finish = Symbol("finish");

/** See the head of this file. */
export interface FramingCase {
  readonly name: string;
  readonly send: (target: FramingTarget) => Piece | readonly Piece[];
  /** What the standards allow and this service wants. */
  readonly allow: readonly string[];
  /** The body is what is wrong: who does not wait for it may answer first. */
  readonly inBody?: boolean;
  /** How many of the first requests are HEAD. */
  readonly heads?: number;
  /** What else a driver does, and why it is let. */
  readonly uws?: Difference;
  readonly node?: Difference;
}

/** What a driver does beyond {@link FramingCase.allow}, and the reason. */
export interface Difference {
  readonly also: readonly string[];
  readonly why: string;
}

/** A POST with its fields in front of those of its framing. */
export function post(
  target: FramingTarget,
  fields: readonly string[],
  body: string,
  line = `POST ${target.path} HTTP/1.1`,
): string {
  return `${[line, "Host: localhost", ...target.fields, ...fields].join("\r\n")}\r\n\r\n${body}`;
}

/** A POST that is in order. */
export function plainPost(target: FramingTarget, ...fields: readonly string[]): string {
  return post(target, [...fields, `Content-Length: ${target.body.length}`], target.body);
}

/** A chunked POST. */
export function chunkedPost(target: FramingTarget, chunks: string): string {
  return post(target, ["Transfer-Encoding: chunked"], chunks);
}

/** A GET of a path that every listener has. */
export function get(...fields: readonly string[]): string {
  return getLine("GET /health HTTP/1.1", ...fields);
}

/** The same with another request line. */
export function getLine(line: string, ...fields: readonly string[]): string {
  return `${[line, "Host: localhost", ...fields].join("\r\n")}\r\n\r\n`;
}

/** A request inside the body of another one, which nobody may take for a request. */
export const smuggled = getLine("GET /health?smuggled HTTP/1.1");

/** Every listener answers it with 404. */
const control = getLine("GET /control HTTP/1.1");

/** Null, or how a case went other than it may. */
export async function framingProblem(
  port: number,
  target: FramingTarget,
  driver: HttpDriver,
  tried: FramingCase,
): Promise<string | null> {
  const difference = tried[driver];
  const early = tried.inBody === true && target.early ? ["ok", "ok."] : [];
  const allowed = [...tried.allow, ...early, ...(difference?.also ?? [])].map((outcome) =>
    outcome.replaceAll("ok", String(target.ok)),
  );
  const outcome = await outcomeOf(port, target, tried, allowed);
  return allowed.includes(outcome) ? null : `${tried.name}: ${outcome}, may be ${allowed.join(" or ")}`;
}

async function outcomeOf(
  port: number,
  target: FramingTarget,
  tried: FramingCase,
  allowed: readonly string[],
): Promise<string> {
  const connection = await RawConnection.open(port, tried.heads);
  try {
    const pieces = [tried.send(target)].flat() as readonly Piece[];
    for (const [i, piece] of pieces.entries()) {
      // One packet each, as far as a sender can see to that.
      if (i > 0) {
        await sleep(2);
      }
      if (piece === finish) {
        connection.finish();
      } else {
        connection.send(piece);
      }
    }
    const goesOn = allowed.filter((outcome) => /\d$/.test(outcome));
    const answers = Math.max(0, ...goesOn.map((outcome) => finalStatuses(outcome.split(" "))));
    const arrived = (): boolean => connection.closed || (answers > 0 && finalStatuses(statuses(connection)) >= answers);
    const rounds = allowed.some((outcome) => outcome.endsWith("?")) ? 1 : 2;
    const whole = await comesToPass(port, target, connection, arrived, rounds);
    if (connection.closed) {
      return `${statuses(connection).join(" ")}.`;
    }
    if (!whole && finalStatuses(statuses(connection)) === 0) {
      return `${statuses(connection).join(" ")}?`;
    }
    const before = statuses(connection).length;
    connection.send(control);
    const controlled = (): boolean => connection.closed || statuses(connection).lastIndexOf("404") >= before;
    if (!(await comesToPass(port, target, connection, controlled))) {
      return `${statuses(connection).join(" ")}?`;
    }
    return connection.closed ? `${statuses(connection).join(" ")}.` : statuses(connection).slice(0, -1).join(" ");
  } finally {
    connection.close();
  }
}

function statuses(connection: RawConnection): string[] {
  return connection.responses.map(({ status }) => String(status));
}

function finalStatuses(all: readonly string[]): number {
  return all.filter((status) => status !== "100").length;
}

const patienceMs = 500;

/**
 * Waits until `condition` holds. Gives up when so often nothing came for half a second, and the server has
 * answered somebody else since: a busy machine is not taken for a server that leaves its client hanging.
 */
async function comesToPass(
  port: number,
  target: FramingTarget,
  connection: RawConnection,
  condition: () => boolean,
  rounds = 2,
): Promise<boolean> {
  for (let round = 0; round < rounds;) {
    if (condition()) {
      return true;
    }
    const before = connection.received.length;
    const patience = new AbortController();
    await Promise.race([
      connection.changed(),
      sleep(patienceMs, undefined, { signal: patience.signal }).catch(() => undefined),
    ]);
    patience.abort();
    if (connection.closed || connection.received.length > before) {
      continue;
    }
    const other = await RawConnection.open(port);
    other.send(plainPost(target));
    await other.settle();
    other.close();
    round++;
  }
  return condition();
}
