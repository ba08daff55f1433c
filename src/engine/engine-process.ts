/**
 * An engine: DuckDB in a process of its own, which runs one job at a time for the server at the other end of file
 * descriptor 3 (protocol.ts) and ends when that is closed. It prints errors only, on standard error.
 *
 * What it costs: ready in 0.2 s of an idle core, with 75 MB resident; 95 MB after its first job. Of private writable
 * memory, which is what the server limits as soon as it is up (RLIMIT_DATA, stacks of threads included), two instances
 * of two threads take 32 MB, and 9 MB more each for a further thread, nearly all of it address space; that for rows in
 * place, which has one, 3 MB: give it 130 MB beside the memory of DuckDB.
 * What it has before is V8's: 120 MB, and from Node.js 24 on a gigabyte of address space for code. A statement that asks
 * for more ends as DuckDB's "Out of Memory Error", or the process ends. After a large job it gives back what it took: of
 * 550 to 830 MB 140 to 300 are left (a sort, texts of gigabytes, 100,000 constants). DuckDB's allocator alone would keep
 * all of it as address space, which counts as well.
 */
import { read, writeSync } from "node:fs";
import { Worker } from "node:worker_threads";

import { decodeNumber, FrameReader } from "./frames.js";
import type { JobThreadData, JobThreadMessage } from "./native/job-thread.js";
import { JobControl } from "./native/job-control.js";
import { endProcess, loadInterrupt, setUpAllocator } from "./native/library.js";
import { frameKinds, maxJobBytes } from "./protocol.js";

/** The stream to the server. */
const fd = 3;
/** The memory that is shared with the server, if its number is told. */
const slotsFd = process.argv[2] === undefined ? null : Number(process.argv[2]);
/** An interrupt is repeated so often, because one between two statements is lost. */
const interruptAgainMs = 20;
/** How long an engine whose server has gone may take to close DuckDB. */
const closeMs = 1000;

function main(): void {
  // Ctrl-C goes to the server's engines, too, and an init system may signal all of a group: the server decides.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => undefined);
  }
  setUpAllocator();
  const control = new JobControl();
  const interruptConnection = loadInterrupt();
  let again: NodeJS.Timeout | undefined;
  const data: JobThreadData = { control: control.memory, fd, slotsFd };
  const thread = new Worker(new URL("native/job-thread.js", import.meta.url), {
    workerData: data,
    stdout: false,
  });
  const say = (message: JobThreadMessage): void => {
    thread.postMessage(message, typeof message === "string" ? [] : [message.buffer]);
  };
  const interrupt = (): void => {
    clearTimeout(again);
    if (!control.running) {
      return;
    }
    control.interrupt(interruptConnection);
    again = setTimeout(interrupt, interruptAgainMs);
  };
  const close = (): void => {
    // A call that no interrupt ends is not waited for, nor is anything tidied up around it.
    setTimeout(endProcess, closeMs, 1).unref();
    interrupt();
    say("close");
  };
  const reader = new FrameReader(maxJobBytes, (kind, payload) => {
    switch (kind) {
      case frameKinds.job:
        clearTimeout(again);
        control.reset();
        say(payload);
        break;
      case frameKinds.credit:
        control.addCredits(decodeNumber(payload));
        break;
      case frameKinds.interrupt:
        interrupt();
        break;
      case frameKinds.tidied:
        say("tidied");
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
    writeSync(process.stderr.fd, `${error.stack ?? error.message}\n`);
    endProcess(1);
  });
  thread.on("exit", () => {
    endProcess(0);
  });
  readNext();
}

main();
