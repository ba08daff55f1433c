/**
 * As much of the API of Kubernetes as Sail asks for its workers: a pod is a process on this machine. So each of Sail's
 * workers can be killed alone, as it can be in production.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { json } from "node:stream/consumers";

/** What Sail asks for, as far as it is needed to start it. */
interface Pod {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly containers: readonly [
      {
        readonly args: readonly string[];
        readonly env: readonly { readonly name: string; readonly value?: string }[];
      },
    ];
  };
}

/** Pods of one session of Sail have the same value. */
const managerLabel = "sail.lakesail.com/worker-manager";

/** Workers of Sail. */
interface SailPods {
  /** Of a Sail in the mode `kubernetes-cluster`. */
  readonly env: Readonly<Record<string, string>>;
  /** Process ids of the workers that run, the oldest first. */
  running(): number[];
  stop(): Promise<void>;
}

/** @param bin with Sail's program */
export async function startSailPods(bin: string, workers: number): Promise<SailPods> {
  const children = new Map<ChildProcess, string>();
  const start = ({ metadata, spec }: Pod): void => {
    const [{ args, env }] = spec.containers;
    const given = env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]));
    const child = spawn(path.join(bin, "sail"), [...args], {
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        ...Object.fromEntries(given),
        // The address of the pod.
        SAIL_CLUSTER__WORKER_LISTEN_HOST: "127.0.0.1",
        SAIL_CLUSTER__WORKER_EXTERNAL_HOST: "127.0.0.1",
      },
      stdio: "ignore",
    });
    children.set(child, metadata.labels[managerLabel] ?? "");
    child.once("exit", () => {
      children.delete(child);
    });
  };
  /** @param manager null: all */
  const end = async (manager: string | null): Promise<void> => {
    const ended = [...children].filter(([, of]) => manager === null || of === manager);
    await Promise.all(
      ended.map(async ([child]) => {
        const exit = once(child, "exit");
        child.kill("SIGKILL");
        await exit;
      }),
    );
  };
  const answer = async (request: IncomingMessage): Promise<object> => {
    if (request.method === "POST") {
      const pod = (await json(request)) as Pod;
      start(pod);
      return pod;
    }
    const selector = new URL(request.url ?? "", "http://localhost").searchParams.get("labelSelector");
    await end(selector?.replace(`${managerLabel}=`, "") ?? "");
    return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" };
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = JSON.stringify(await answer(request));
    response.writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" }).end(body);
  };
  const server = createServer((request, response) => {
    void handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const directory = await mkdtemp(path.join(tmpdir(), "sail-pods-"));
  const file = path.join(directory, "config.json");
  const { port } = server.address() as AddressInfo;
  await writeFile(
    file,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "here", cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [{ name: "test", user: {} }],
      contexts: [{ name: "here", context: { cluster: "here", user: "test" } }],
      "current-context": "here",
    }),
  );
  return {
    env: {
      KUBECONFIG: file,
      SAIL_CLUSTER__WORKER_INITIAL_COUNT: String(workers),
      SAIL_CLUSTER__WORKER_MAX_COUNT: String(workers),
      SAIL_CLUSTER__WORKER_HEARTBEAT_INTERVAL_SECS: "1",
      SAIL_CLUSTER__WORKER_HEARTBEAT_TIMEOUT_SECS: "5",
      SAIL_CLUSTER__RPC_RETRY_STRATEGY__FIXED__DELAY_SECS: "1",
      SAIL_CLUSTER__TASK_LAUNCH_TIMEOUT_SECS: "20",
      SAIL_CLUSTER__TASK_STREAM_CREATION_TIMEOUT_SECS: "10",
    },
    running: () => [...children.keys()].flatMap(({ pid }) => (pid === undefined ? [] : [pid])),
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await end(null);
      await rm(directory, { recursive: true, force: true });
    },
  };
}
