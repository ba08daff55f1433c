/** What a command reads from and writes to. */
import { once } from "node:events";
import { type Readable, type Writable, addAbortSignal } from "node:stream";

import { underSignals } from "../shared/abort.js";
import { UsageError } from "./context.js";

/** A stream that may be a terminal. */
export interface OutputStream extends Writable {
  readonly isTTY?: boolean;
  /** Width of the terminal. */
  readonly columns?: number;
}

/** The surroundings of a command, given by src/bin or by a test. */
export interface Terminal {
  readonly stdin: Readable;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** Aborted by Ctrl-C. */
  readonly interrupted: AbortSignal;
  readonly now: () => number;
}

/**
 * Writes in order, waits while the reader is slow, and notices a reader that went away. Ctrl-C ends a wait with an
 * error: a reader may stand still for as long as it likes (`| less`).
 */
export interface Output {
  /** Resolves when more may be written. After the reader has gone it does nothing. */
  write(chunk: string | Uint8Array): Promise<void>;
  /** Aborted when the reader has gone (`| head`): nothing more needs to be made. */
  readonly closed: AbortSignal;
  /** Resolves when everything written has been handed to the system. */
  flush(): Promise<void>;
}

/**
 * Output over standard output. A broken pipe ends it quietly; any other failure (a full disk) rejects the next write.
 */
export function createOutput({ stdout: stream, interrupted }: Pick<Terminal, "stdout" | "interrupted">): Output {
  const closed = new AbortController();
  let failure: Error | null = null;
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "ERR_STREAM_DESTROYED") {
      failure = error;
    }
    closed.abort();
  });
  return {
    closed: closed.signal,
    async write(chunk) {
      if (failure !== null) {
        throw failure;
      }
      if (closed.signal.aborted || chunk.length === 0) {
        return;
      }
      if (!stream.write(chunk)) {
        // An error ends the wait too; it was seen by the listener above.
        await underSignals([closed.signal, interrupted], (signal) => once(stream, "drain", { signal })).catch(() =>
          interrupted.throwIfAborted(),
        );
      }
      if (failure !== null) {
        throw failure;
      }
    },
    async flush() {
      if (closed.signal.aborted) {
        if (failure !== null) {
          throw failure;
        }
        return;
      }
      await underSignals([interrupted], (signal) => {
        signal.throwIfAborted();
        return new Promise<void>((resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
          stream.write("", () => resolve());
        });
      });
      if (failure !== null) {
        throw failure;
      }
    },
  };
}

/** Reads standard input to its end. @throws UsageError when it is not UTF-8; Error when Ctrl-C comes first */
export async function readAll({ stdin, interrupted }: Pick<Terminal, "stdin" | "interrupted">): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of addAbortSignal(interrupted, stdin)) {
    chunks.push(Buffer.from(chunk as Uint8Array | string));
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new UsageError("standard input is not UTF-8; convert it, with iconv for example", { cause: error });
  }
}
