/** Power that fails: of what was written below a directory, only what was synced comes back. Linux, through /proc. */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import path from "node:path";

export interface PowerSupply {
  /**
   * Leaves of the directory what a machine finds whose power failed now, at the worst: files and names as they were when
   * they were synced last. Once.
   */
  fail(): void;
  /** Leaves everything as it is. */
  stop(): void;
}

/** A directory's names when it was synced last, and what each of them stood for. */
type Names = ReadonlyMap<string, { readonly inode: bigint; readonly isDirectory: boolean }>;

/** Watches what this process syncs; what is there already counts as synced. */
export async function watchPower(directory: string): Promise<PowerSupply> {
  const root = fs.realpathSync(directory);
  const directories = new Map<bigint, Names>();
  const files = new Map<bigint, Buffer>();
  /** Keeps numbers of inodes from being given to others. */
  const held: number[] = [];

  const note = (file: string): void => {
    const { ino, isDirectory } = look(file);
    if (!directories.has(ino) && !files.has(ino)) {
      held.push(fs.openSync(file, "r"));
    }
    if (isDirectory) {
      const names = fs.readdirSync(file).map((name) => {
        const found = look(path.join(file, name));
        return [name, { inode: found.ino, isDirectory: found.isDirectory }] as const;
      });
      directories.set(ino, new Map(names));
    } else {
      files.set(ino, fs.readFileSync(file));
    }
  };
  const synced = (descriptor: number): void => {
    // Under the name that it has by now.
    const file = fs.readlinkSync(`/proc/self/fd/${descriptor}`);
    if ((file === root || file.startsWith(`${root}/`)) && fs.existsSync(file)) {
      note(file);
    }
  };
  for (const name of ["", ...fs.readdirSync(root, { recursive: true, encoding: "utf8" })]) {
    note(path.join(root, name));
  }

  const { fsyncSync, fdatasyncSync, fsync, fdatasync } = fs;
  const handle = await fs.promises.open(root, "r");
  const handles = Object.getPrototypeOf(handle) as Pick<fs.promises.FileHandle, "sync" | "datasync">;
  await handle.close();
  const { sync, datasync } = handles;
  const also = (call: (descriptor: number) => void) => (descriptor: number) => {
    call(descriptor);
    synced(descriptor);
  };
  const alsoCalled = (call: typeof fsync) => (descriptor: number, done: fs.NoParamCallback) => {
    call(descriptor, (error) => {
      if (error === null) {
        synced(descriptor);
      }
      done(error);
    });
  };
  const alsoOfHandle = (call: () => Promise<void>) =>
    async function (this: fs.promises.FileHandle): Promise<void> {
      await call.call(this);
      synced(this.fd);
    };
  Object.assign(fs, {
    fsyncSync: also(fsyncSync),
    fdatasyncSync: also(fdatasyncSync),
    fsync: alsoCalled(fsync),
    fdatasync: alsoCalled(fdatasync),
  });
  Object.assign(handles, { sync: alsoOfHandle(sync), datasync: alsoOfHandle(datasync) });
  syncBuiltinESMExports();

  const stop = (): void => {
    Object.assign(fs, { fsyncSync, fdatasyncSync, fsync, fdatasync });
    Object.assign(handles, { sync, datasync });
    syncBuiltinESMExports();
    for (const descriptor of held.splice(0)) {
      fs.closeSync(descriptor);
    }
  };
  const bring = (inode: bigint, below: string): void => {
    for (const [name, found] of directories.get(inode) ?? []) {
      const file = path.join(below, name);
      if (found.isDirectory) {
        fs.mkdirSync(file);
        bring(found.inode, file);
      } else {
        fs.writeFileSync(file, files.get(found.inode) ?? "");
      }
    }
  };
  return {
    stop,
    fail() {
      const { ino } = look(root);
      for (const name of fs.readdirSync(root)) {
        fs.rmSync(path.join(root, name), { recursive: true });
      }
      bring(ino, root);
      stop();
    },
  };
}

function look(file: string): { readonly ino: bigint; readonly isDirectory: boolean } {
  const stats = fs.statSync(file, { bigint: true });
  return { ino: stats.ino, isDirectory: stats.isDirectory() };
}
