import { type DestinationStream, type Logger as PinoLogger, destination as pinoDestination, pino } from "pino";

import { createTerminalDestination } from "./log-terminal.js";
import { redactFields, redactText } from "./redact.js";

/** The structured logger of the service. */
export type Logger = PinoLogger;

/** What a logger is made of. */
export interface LoggerOptions {
  /** `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`. */
  readonly level: string;
  /** Name of the process, in every line as `service`. */
  readonly service: string;
  /** Where lines go. Default: JSON lines on stdout, or readable lines when stdout is a terminal. */
  readonly destination?: DestinationStream;
}

/**
 * Creates the logger of a process. Fields named like a credential (authorization, key, token, password,
 * connectionString, ...) are replaced at any depth, and keys, bearer tokens and passwords in URLs are
 * replaced anywhere in a line, error messages included.
 */
export function createLogger(o: LoggerOptions): Logger {
  const destination = o.destination ?? createDefaultDestination();
  return pino(
    {
      level: o.level,
      base: { service: o.service },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: redactFields,
      },
      serializers: { err: serializeError, error: serializeError },
      hooks: { streamWrite: redactText },
    },
    destination,
  );
}

/** Lines that cannot be written now are kept up to this many characters. */
const mostUnwritten = 1 << 20;

/**
 * Where lines go by default: JSON lines on stdout, or readable lines when stdout is a terminal. A file that takes no
 * more, because its disk is full, ends no server: lines wait for room, and what is too much is lost.
 */
export function createDefaultDestination(): DestinationStream {
  if (process.stdout.isTTY) {
    return createTerminalDestination(process.stdout);
  }
  const destination = pinoDestination({ fd: 1, sync: true, maxLength: mostUnwritten });
  destination.on("error", () => undefined);
  return destination;
}

/** A logger that writes nothing, for tests and for code that was given none. */
export function createSilentLogger(): Logger {
  return pino({ level: "silent" });
}

/**
 * An error in the log: name, code, message, stack and causes, and no other property (they may hold statements or
 * bodies).
 */
function serializeError(e: unknown): unknown {
  return serializeErrorAt(e, 0);
}

function serializeErrorAt(e: unknown, depth: number): unknown {
  if (!(e instanceof Error)) {
    return e;
  }
  return {
    type: e.name,
    ...("code" in e && typeof e.code === "string" ? { code: e.code } : {}),
    message: e.message,
    stack: e.stack,
    ...(e.cause === undefined || depth >= 5 ? {} : { cause: serializeErrorAt(e.cause, depth + 1) }),
    ...(e instanceof AggregateError && depth < 5
      ? { errors: e.errors.map((inner) => serializeErrorAt(inner, depth + 1)) }
      : {}),
  };
}
