/**
 * Memory that somebody else uses: a process of its own holds all of the machine's but so much. A virtual machine whose host
 * takes unused memory back pays 2 us for each page that a server's files take of it; where memory is in use, as on a machine
 * that has run for a while, files take pages of older ones.
 *
 * Usage as a program: BYTES; it holds them until its input ends.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { freemem } from "node:os";
import { fileURLToPath } from "node:url";

import { bareEnvironment } from "../run/machine.js";
import { number } from "../run/options.js";

const mebi = 1024 * 1024;
const chunkBytes = 256 * mebi;

/** Memory that is held. */
export interface HeldMemory {
  readonly pid: number;
  /** Gives it back. */
  stop(): Promise<void>;
}

/** The option of a bench for {@link holdAllBut}. */
export const memoryLeft = number(
  0,
  "MiB of memory that are left to it, as on a machine in use; the rest is held. 0 holds none",
);

/** Holds what is available but `leftMiB`; null for 0, which holds nothing. @throws Error when it cannot be had */
export async function holdAllBut(leftMiB: number): Promise<HeldMemory | null> {
  return leftMiB === 0 ? null : holdMemory(Math.max(0, freemem() - leftMiB * mebi));
}

/** Holds so many bytes. @throws Error when they cannot be had */
export async function holdMemory(bytes: number): Promise<HeldMemory> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), String(bytes)], {
    env: bareEnvironment(),
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const held = await Promise.race([once(child.stdout, "data"), ended.then(() => null)]);
  if (held === null || child.pid === undefined) {
    throw new Error(
      `a process could not take ${Math.round(bytes / mebi)} MiB of memory: leave more with --memory-left`,
    );
  }
  return {
    pid: child.pid,
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const bytes = Number(process.argv[2]);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes; at += chunkBytes) {
    chunks.push(Buffer.alloc(Math.min(chunkBytes, bytes - at), 1));
  }
  process.stdout.write("held\n");
  const giveBack = (): void => {
    // Named here, or they would be collected before.
    chunks.length = 0;
    process.exit(0);
  };
  process.stdin.on("end", giveBack).resume();
}
