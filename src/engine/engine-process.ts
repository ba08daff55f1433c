/**
 * An engine: DuckDB in a process of its own, which runs one job at a time for the server at the other end of file
 * descriptor 3 (protocol.ts) and ends when that is closed. Nothing is printed but what goes wrong, on standard error.
 */
import { read } from "node:fs";
import { Worker } from "node:worker_threads";

import { decodeNumber, FrameReader } from "./frames.js";
import type { JobThreadData, JobThreadMessage } from "./native/job-thread.js";
import { JobControl } from "./native/job-control.js";
import { loadInterrupt } from "./native/library.js";
import { type EngineJob, frameKinds } from "./protocol.js";

/** The stream to the server. */
const fd = 3;
/** Most bytes of a job. */
const maxJobBytes = 64 << 20;
/** An interrupt is repeated so often, because one between two statements is lost. */
const interruptAgainMs = 20;
/** How long an engine whose server has gone may take to close DuckDB. */
const closeMs = 1000;

function main(): void {
  const control = new JobControl();
  const interruptConnection = loadInterrupt();
  let again: NodeJS.Timeout | undefined;
  const data: JobThreadData = { control: control.memory, fd };
  const thread = new Worker(new URL("native/job-thread.js", import.meta.url), {
    workerData: data,
    stdout: false,
  });
  const say = (message: JobThreadMessage): void => {
    thread.postMessage(message, []);
  };
  const interrupt = (): void => {
    clearTimeout(again);
    if (!control.running) return;
    control.interrupt(interruptConnection);
    again = setTimeout(interrupt, interruptAgainMs);
  };
  const close = (): void => {
    // A call that no interrupt ends is not waited for, nor is anything tidied up around it.
    setTimeout(() => process.kill(process.pid, "SIGKILL"), closeMs).unref();
    interrupt();
    say("close");
  };
  const reader = new FrameReader(maxJobBytes, (kind, payload) => {
    switch (kind) {
      case frameKinds.job:
        clearTimeout(again);
        control.reset();
        say(JSON.parse(Buffer.from(payload).toString()) as EngineJob);
        break;
      case frameKinds.credit:
        control.addCredits(decodeNumber(payload));
        break;
      case frameKinds.interrupt:
        interrupt();
        break;
      default:
        throw new RangeError(`a frame of the kind ${kind}`);
    }
  });
  const readNext = (): void => {
    const room = reader.room();
    read(fd, room, 0, room.length, null, (error, bytes) => {
      if (error !== null || bytes === 0) {
        close();
        return;
      }
      reader.filled(bytes);
      readNext();
    });
  };

  thread.on("error", (error) => {
    process.stderr.write(`${error.stack ?? error.message}\n`);
    process.exit(1);
  });
  thread.on("exit", () => {
    process.exit(0);
  });
  readNext();
}

main();
