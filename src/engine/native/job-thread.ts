/**
 * The thread of an engine that runs jobs. It calls DuckDB and writes to the server without returning to its event
 * loop in between: an asynchronous call costs 50 to 100 us, and a result has one for every 2048 rows.
 */
import { parentPort, workerData } from "node:worker_threads";

import { asBuffer } from "telemetry-service-client/shared/as-buffer";
import { encodeFrame, encodeNumberFrame } from "../frames.js";
import { MessageSlots } from "../message-slots.js";
import { dataSegmentBytes } from "../process-memory.js";
import { type EngineHello, type EngineJob, frameKinds, messagesAhead, type StepResult } from "../protocol.js";
import { DuckDbError, loadNative } from "./connection.js";
import { Instances, type JobPort, runJob } from "./job.js";
import { JobControl } from "./job-control.js";
import { addressOf, errno, type Pointer } from "./library.js";

/** What jobs leave taken is given back beyond that: a small job takes it again faster than the system gives it anew. */
const keptBytes = 120 << 20;
/** What could not be given back is tried again when so much has been taken since, and not after each small job. */
const tryAgainBytes = 32 << 20;

/** What the thread is started with. */
export interface JobThreadData {
  readonly control: SharedArrayBuffer;
  /** The stream to the server; writes to it wait. */
  readonly fd: number;
  /** The memory that is shared with the server; null when there is none. */
  readonly slotsFd: number | null;
}

/**
 * What the thread receives: the payload of a job's frame, the question whether it has tidied up behind those before, or
 * the order to close DuckDB and end.
 */
export type JobThreadMessage = Uint8Array<ArrayBuffer> | "tidied" | "close";

function main({ control: memory, fd, slotsFd }: JobThreadData): void {
  const native = loadNative();
  const slots = slotsFd === null ? null : MessageSlots.open(slotsFd);
  const instances = new Instances(native);
  const leastBytes = dataSegmentBytes(process.pid) + keptBytes;
  let mostBytes = leastBytes;
  const control = new JobControl(memory);

  const write = (address: Pointer, bytes: number): void => {
    for (let done = 0; done < bytes;) {
      const written = native.c.write(fd, address + done, bytes - done);
      if (written >= 0) {
        done += written;
      } else if (errno() !== interruptedCall) {
        throw new ServerGone();
      }
    }
  };
  const writeBytes = (bytes: Uint8Array): void => {
    write(addressOf(bytes), bytes.length);
  };
  const writeJson = (kind: number, value: unknown): void => {
    writeBytes(encodeFrame(kind, Buffer.from(JSON.stringify(value))));
  };
  /** Whether the present job has used the shared memory. */
  let shared = false;
  const port: JobPort = {
    slots,
    get interrupted() {
      return control.interrupted;
    },
    serve: (connection) => {
      control.serve(connection);
    },
    result: (result: StepResult) => {
      writeJson(frameKinds.result, result);
    },
    send: ({ address, bytes, slotStart }) => {
      if (!control.takeCredit()) {
        throw new DuckDbError("INTERRUPT Error: Interrupted!");
      }
      if (slotStart === null) {
        write(address, bytes);
        return;
      }
      shared = true;
      writeBytes(encodeNumberFrame(frameKinds.slot, slotStart, bytes));
    },
  };

  parentPort?.on("message", (message: JobThreadMessage) => {
    if (message === "close") {
      instances.closeAll();
      parentPort?.close();
      return;
    }
    if (message === "tidied") {
      tell(() => {
        writeBytes(encodeFrame(frameKinds.tidied, new Uint8Array(0)));
      });
      return;
    }
    const job = JSON.parse(asBuffer(message).toString()) as EngineJob;
    const { end, tidyUp } = runJob(instances, job, port);
    // The next job writes to the slots again.
    if (shared) {
      control.awaitCredits(messagesAhead);
    }
    shared = false;
    control.ended();
    tell(() => {
      writeJson(frameKinds.end, end);
    });
    tidyUp();
    if (dataSegmentBytes(process.pid) > mostBytes) {
      native.giveBack();
      mostBytes = Math.max(leastBytes, dataSegmentBytes(process.pid) + tryAgainBytes);
    }
  });
  const hello: EngineHello = { pid: process.pid, duckdb: native.duckdb.library_version() ?? "" };
  writeJson(frameKinds.hello, hello);
}

/** Writes to a server that may have gone. */
function tell(write: () => void): void {
  try {
    write();
  } catch (error) {
    // The other thread sees it, too, and says so.
    if (!(error instanceof ServerGone)) {
      throw error;
    }
  }
}

/** Nobody reads what is written. */
class ServerGone extends Error {
  override readonly name = "ServerGone";
}

/** EINTR. */
const interruptedCall = 4;

main(workerData as JobThreadData);
