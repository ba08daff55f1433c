/** A real HAProxy in front of a server: Debian's package, unpacked into a cache folder where it is not installed. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { freePort } from "../free-port.js";
import { lastingDirectory } from "../run-directory.js";
import { until } from "../until.js";

const run = promisify(execFile);
const packages = ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"];

/** How to start HAProxy. */
export interface HaproxyBinary {
  readonly file: string;
  readonly libraries: string;
}

/** HAProxy as it is installed, else as Debian's archive has it, or why there is none. */
export async function findHaproxy(): Promise<HaproxyBinary | { readonly missing: string }> {
  const directory = path.join(lastingDirectory(), "telemetry-service-haproxy");
  const unpacked = {
    file: path.join(directory, "usr", "sbin", "haproxy"),
    libraries: path.join(directory, "usr", "lib", "x86_64-linux-gnu"),
  };
  for (const file of ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"]) {
    if (existsSync(file)) {
      return { file, libraries: "" };
    }
  }
  try {
    if (!existsSync(unpacked.file)) {
      await mkdir(directory, { recursive: true });
      await run("apt-get", ["download", ...packages], { cwd: directory });
      for (const name of await readdir(directory)) {
        if (name.endsWith(".deb")) {
          await run("dpkg", ["-x", name, "."], { cwd: directory });
        }
      }
    }
    await run(unpacked.file, ["-v"], { env: { LD_LIBRARY_PATH: unpacked.libraries } });
    return unpacked;
  } catch (error) {
    return { missing: String(error).split("\n")[0] ?? "" };
  }
}

/** A proxy that keeps one connection to its server and shares it among its clients. */
interface Haproxy {
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts a proxy in front of a port of this machine. */
export async function startHaproxy(binary: HaproxyBinary, serverPort: number): Promise<Haproxy> {
  const directory = await mkdtemp(path.join(tmpdir(), "haproxy-"));
  const port = await freePort();
  const config = path.join(directory, "haproxy.cfg");
  await writeFile(
    config,
    `global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 2s
  timeout server 2s
  http-reuse always
frontend front
  bind 127.0.0.1:${port}
  default_backend back
backend back
  server one 127.0.0.1:${serverPort} maxconn 1 pool-max-conn 1
`,
  );
  const child: ChildProcess = spawn(binary.file, ["-db", "-f", config], {
    env: { LD_LIBRARY_PATH: binary.libraries },
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  await until(async () => {
    const socket = net.connect({ port, host: "127.0.0.1" });
    const connected = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    return connected;
  });
  return {
    port,
    async stop() {
      child.kill("SIGKILL");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
