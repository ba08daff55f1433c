/**
 * One owner per directory, by a lock that the kernel releases however its holder ends.
 *
 * Node.js offers no `flock`. On Linux the lock is the name of an abstract Unix socket: binding it is atomic, nothing
 * stays on disk, and it is gone at the instant the process is, `kill -9` included, so there is no stale lock to judge
 * and no process id that could have been given to somebody else. The name contains a secret of the directory (another
 * local user cannot take it first) and its inode (a copy of the directory is another directory). On macOS, which has no
 * abstract sockets, the lock is `open(2)` with `O_EXLOCK`.
 *
 * The reach of the lock is one network namespace. Two containers that mount one directory do not see
 * each other's; sharing such a directory between machines or containers is not supported.
 */
import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, link, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import net from "node:net";
import path from "node:path";

import { ServiceError } from "./errors.js";

/** A lock that is held; `release` gives it back, and so does the end of the process. */
interface DirectoryLock {
  release(): Promise<void>;
}

/** `sun_path` filled to its last byte: versions of libuv differ in how they pad a shorter name. */
const abstractNameBytes = 107;

/** `O_EXLOCK` of the BSD family, which Node.js passes through to `open(2)` but does not name. */
const exclusiveLockFlag = 0x20;

/**
 * Takes the lock of a directory.
 *
 * @param o.directory an existing directory.
 * @param o.secret bytes that only the directory's owner knows.
 * @param o.what names it in the error: `database directory`.
 * @param o.remedy the end of the error's sentence.
 * @throws {ServiceError} `CONFLICT`, one sentence, when another process holds it.
 */
export async function acquireDirectoryLock(o: {
  readonly directory: string;
  readonly secret: string;
  readonly what: string;
  readonly remedy: string;
}): Promise<DirectoryLock> {
  const { directory, secret, what, remedy } = o;
  const ownerFile = path.join(directory, "owner.pid");
  const lock =
    process.platform === "linux"
      ? await lockByAbstractSocket(directory, secret)
      : await lockByOpenFlag(path.join(directory, "owner.lock"));
  if (lock === null) {
    // The file only names the holder for the reader of the sentence; the lock itself is the truth.
    const holder = await readFile(ownerFile, "utf8").then(
      (text) => ` (process ${text.trim()})`,
      () => "",
    );
    throw new ServiceError(
      "CONFLICT",
      `The ${what} ${directory} is in use by another instance${holder}: stop it, or ${remedy}.`,
    );
  }
  // On a full disk the sentence lacks the number; that must not keep the holder from starting.
  await writeFile(ownerFile, `${String(process.pid)}\n`).catch(() => undefined);
  return lock;
}

/** A secret for {@link acquireDirectoryLock} that is kept in the directory, where its owner alone reads it. */
export async function directorySecret(directory: string): Promise<string> {
  const file = path.join(directory, "lock.secret");
  const present = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return null;
    }
    throw error;
  });
  if (present !== null) {
    return present;
  }
  // Linked into place whole: whoever starts at the same moment reads all of it, and both the first one.
  const fresh = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(fresh, randomBytes(16).toString("hex"), { flag: "wx", mode: 0o600 });
    await link(fresh, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") {
        throw error;
      }
    });
  } finally {
    await rm(fresh, { force: true });
  }
  return readFile(file, "utf8");
}

async function lockByAbstractSocket(directory: string, secret: string): Promise<DirectoryLock | null> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const digest = createHash("sha256")
    .update(`${secret}\0${String(dev)}\0${String(ino)}`)
    .digest("hex");
  const name = `telemetry-service/postgres/${digest}`.padEnd(abstractNameBytes, "-");
  const server = net.createServer((socket) => socket.destroy());
  const bound = await new Promise<boolean>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") {
        resolve(false);
      } else {
        reject(error);
      }
    });
    server.listen({ path: `\0${name}` }, () => resolve(true));
  });
  if (!bound) {
    return null;
  }
  // A lock alone is no reason for the process to stay.
  server.unref();
  return {
    release: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
      }),
  };
}

async function lockByOpenFlag(file: string): Promise<DirectoryLock | null> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | exclusiveLockFlag;
  let handle: FileHandle;
  try {
    handle = await open(file, flags, 0o600);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EAGAIN" || code === "EWOULDBLOCK") {
      return null;
    }
    throw error;
  }
  return { release: () => handle.close() };
}
