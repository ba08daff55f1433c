/**
 * Memory that the server and one engine share, for the large messages of results: an engine lays a message out in a
 * slot, says which, and the transport copies it from there. That saves two copies through the kernel, 0.6 s of
 * processor time for each gigabyte. Linux only (memfd_create(2)); elsewhere messages go over the stream.
 *
 * The slots are used in turn. A slot is written again when the message in it has been released, which is what a credit
 * tells (protocol.ts); an engine is at most one message further than its credits allow.
 */
import koffi from "koffi";

import { messagesAhead } from "./protocol.js";

/** Those that are under way or wait for their reader, and the one that is being made. */
const slotCount = messagesAhead + 1;
/** A message of more bytes goes over the stream, as does a small one, for which nothing is gained. */
export const slotBytes = 2 << 20;
export const leastSlotMessageBytes = 64 << 10;
const totalBytes = slotCount * slotBytes;

/** linux/memfd.h, linux/fcntl.h, sys/mman.h */
const linux = {
  closeOnExec: 1,
  allowSealing: 2,
  addSeals: 1033,
  sealSizeAndSeals: 1 | 2 | 4,
  readWrite: 1 | 2,
  shared: 1,
} as const;

interface SharedMemoryCalls {
  readonly memfdCreate: (name: string, flags: number) => number;
  readonly ftruncate: (fd: number, bytes: number) => number;
  readonly fcntl: (fd: number, command: number, type: "int", value: number) => number;
  readonly mmap: (
    at: number,
    bytes: number,
    protection: number,
    flags: number,
    fd: number,
    offset: number,
  ) => number | bigint;
  readonly munmap: (at: number, bytes: number) => number;
  /** Node.js warns of its own for a descriptor that it has not opened. */
  readonly close: (fd: number) => number;
}

let loaded: SharedMemoryCalls | undefined;

function calls(): SharedMemoryCalls {
  if (loaded !== undefined) {
    return loaded;
  }
  const libc = koffi.load(null);
  loaded = {
    memfdCreate: libc.func("memfd_create", "int", ["str", "uint"]),
    ftruncate: libc.func("ftruncate", "int", ["int", "int64_t"]),
    fcntl: libc.func("int fcntl(int, int, ...)"),
    mmap: libc.func("mmap", "uint64_t", ["uint64_t", "size_t", "int", "int", "int", "int64_t"]),
    munmap: libc.func("munmap", "int", ["uint64_t", "size_t"]),
    close: libc.func("close", "int", ["int"]),
  };
  return loaded;
}

/** Mapped memory lives as long as anything refers to it: a reader may take its time with the last message. */
const mapped = new FinalizationRegistry<number>((address) => {
  calls().munmap(address, totalBytes);
});

/** The memory of one engine, as either process sees it. */
export class MessageSlots {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly address: number;
  #turn = 0;

  private constructor(fd: number) {
    const at = Number(calls().mmap(0, totalBytes, linux.readWrite, linux.shared, fd, 0));
    if (!Number.isSafeInteger(at)) {
      throw failed("mapped");
    }
    const buffer = koffi.view(BigInt(at), totalBytes);
    this.address = at;
    this.bytes = new Uint8Array(buffer);
    mapped.register(buffer, at);
  }

  /** Makes memory for an engine. @returns null where the system has none; close it when the engine has `fd` */
  static create(): { readonly slots: MessageSlots; readonly fd: number; close(): void } | null {
    if (process.platform !== "linux") {
      return null;
    }
    const fd = calls().memfdCreate("engine messages", linux.closeOnExec | linux.allowSealing);
    if (fd < 0) {
      throw failed("made");
    }
    try {
      if (calls().ftruncate(fd, totalBytes) !== 0) {
        throw failed("made");
      }
      // An engine that cuts it short would end the server with SIGBUS.
      if (calls().fcntl(fd, linux.addSeals, "int", linux.sealSizeAndSeals) !== 0) {
        throw failed("sealed");
      }
      return { slots: new MessageSlots(fd), fd, close: () => calls().close(fd) };
    } catch (error) {
      calls().close(fd);
      throw error;
    }
  }

  /** Maps the memory that a process was given. */
  static open(fd: number): MessageSlots {
    const slots = new MessageSlots(fd);
    calls().close(fd);
    return slots;
  }

  /** The first byte of the slot whose turn it is. */
  next(): number {
    return (this.#turn++ % slotCount) * slotBytes;
  }

  /** A message. @throws RangeError when it is not within the memory */
  message(start: number, length: number): Uint8Array<ArrayBuffer> {
    if (start + length > totalBytes) {
      throw new RangeError("a message beyond the shared memory");
    }
    return this.bytes.subarray(start, start + length);
  }
}

function failed(what: string): Error {
  return new Error(`shared memory cannot be ${what}: error ${koffi.errno()}`);
}
