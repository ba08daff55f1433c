/** What a command reads from and writes to. */
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";

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

/** Writes in order, waits while the reader is slow, and notices a reader that went away. */
export interface Output {
  /** Resolves when more may be written. After the reader has gone it does nothing. */
  write(chunk: string | Uint8Array): Promise<void>;
  /** Aborted when the reader has gone (`| head`): nothing more needs to be made. */
  readonly closed: AbortSignal;
  /** Resolves when everything written has been handed to the system. */
  flush(): Promise<void>;
}

/**
 * Output over a stream. A broken pipe ends it quietly; any other failure (a full disk) rejects the next write.
 */
export function createOutput(stream: OutputStream): Output {
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
        await once(stream, "drain", { signal: closed.signal }).catch(() => undefined);
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
      await new Promise<void>((resolve) => {
        stream.write("", () => resolve());
      });
      if (failure !== null) {
        throw failure;
      }
    },
  };
}

/** Reads a stream to its end as UTF-8. */
export async function readAll(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) {
    chunks.push(Buffer.from(chunk as Uint8Array | string));
  }
  return Buffer.concat(chunks).toString("utf8");
}
