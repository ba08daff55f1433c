/** A file that the disk does not give back to this process. */
import { fstatSync, statSync } from "node:fs";
import { open } from "node:fs/promises";

/** Fails as the system does: such an error has no path. `met` is called first. */
export async function onBrokenDisk<T>(file: string, work: () => Promise<T>, met?: () => void): Promise<T> {
  const handle = await open(file);
  const files = Object.getPrototypeOf(handle) as {
    read: (this: { readonly fd: number }, ...rest: unknown[]) => unknown;
  };
  await handle.close();
  const { ino } = statSync(file);
  const { read } = files;
  files.read = function (...rest) {
    if (fstatSync(this.fd).ino !== ino) {
      return read.apply(this, rest);
    }
    met?.();
    return Promise.reject(Object.assign(new Error("EIO: i/o error, read"), { code: "EIO", syscall: "read" }));
  };
  try {
    return await work();
  } finally {
    files.read = read;
  }
}
