/** Copies the lines of the logger to the service's own telemetry. */
import type { DestinationStream } from "pino";

/** One line of the logger, parsed. */
export type LogLine = Readonly<Record<string, unknown>>;

/** A destination for the logger whose lines can be listened to. */
export interface LogTap {
  /** For `createLogger`. */
  readonly destination: DestinationStream;
  /**
   * Hands every line to `listener`, those since the start first; null detaches. Lines that carry
   * `selfTelemetry: true` are about the telemetry itself and never handed on.
   */
  listen(listener: ((line: LogLine) => void) | null): void;
  /** Forgets the lines kept for a listener, and keeps no more: there will be none. */
  discard(): void;
}

/** Lines kept before anyone listens; what a start-up writes is far less. */
const keptLines = 1000;

/** A tap in front of `inner`, which gets every line unchanged and first. */
export function createLogTap(inner: DestinationStream): LogTap {
  let listener: ((line: LogLine) => void) | null = null;
  let kept: LogLine[] | null = [];
  const hand = (line: LogLine): void => {
    if (listener !== null) {
      listener(line);
    } else if (kept !== null && kept.length < keptLines) {
      kept.push(line);
    }
  };
  return {
    destination: {
      write(text) {
        inner.write(text);
        if (listener === null && kept === null) {
          return;
        }
        const line = parseLine(text);
        if (line !== null && line["selfTelemetry"] !== true) {
          hand(line);
        }
      },
    },
    listen(next) {
      listener = next;
      const waiting = kept ?? [];
      kept = null;
      if (next !== null) {
        for (const line of waiting) {
          next(line);
        }
      }
    },
    discard() {
      listener = null;
      kept = null;
    },
  };
}

function parseLine(text: string): LogLine | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as LogLine) : null;
  } catch {
    // Not a line of the logger; it has been written and there is nothing to report.
    return null;
  }
}
