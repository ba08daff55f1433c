/** A real S3 server that nobody here wrote (versitygw), and a proxy before it that breaks what it is told to break. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { freePort } from "../free-port.js";
import { goProgram } from "../go.js";
import { until } from "../until.js";

/** What the server and its clients know of each other; nothing else takes them. */
export const s3Environment = {
  AWS_ACCESS_KEY_ID: "lakeaccess",
  AWS_SECRET_ACCESS_KEY: "lake-secret-for-tests",
  AWS_REGION: "us-east-1",
} as const;

/** Builds the server once; null, and a line that says so, where that cannot be. */
export function findS3Server(): Promise<string | null> {
  return goProgram("github.com/versity/versitygw/cmd/versitygw", "v1.8.0");
}

export interface S3Server {
  readonly endpoint: string;
  /** Holds the bucket `lake`, its objects as files. */
  readonly directory: string;
  /** Ends it at once and keeps what it holds. */
  kill(): Promise<void>;
  /** Starts it again at the same address. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the server with an empty bucket `lake`. */
export async function startS3Server(program: string): Promise<S3Server> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-s3-"));
  await mkdir(path.join(directory, "lake"));
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  let child: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    child = spawn(program, ["--quiet", "--port", `127.0.0.1:${port}`, "posix", directory], {
      env: {
        ROOT_ACCESS_KEY: s3Environment.AWS_ACCESS_KEY_ID,
        ROOT_SECRET_KEY: s3Environment.AWS_SECRET_ACCESS_KEY,
        HOME: directory,
      },
      stdio: "ignore",
    });
    await until(() =>
      fetch(endpoint, { signal: AbortSignal.timeout(2000) })
        .then((answer) => answer.arrayBuffer())
        .then(
          () => true,
          () => false,
        ),
    );
  };
  const kill = async (): Promise<void> => {
    if (child !== null && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
  };
  await start();
  return {
    endpoint,
    directory,
    kill,
    start,
    stop: async () => {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** What happens to a request. */
export type Fault =
  /** Answered without asking the server. */
  | { readonly kind: "status"; readonly status: number; readonly code: string }
  /** A list without anything in it, as of a store whose lists lag behind. */
  | { readonly kind: "empty list" }
  /** A page of a list that goes on, always with the same one. */
  | { readonly kind: "endless list"; readonly token: string | null }
  /** A list without objects that were stored less than so long ago. */
  | { readonly kind: "stale list"; readonly lagMs: number }
  /** Never answered, never passed on. */
  | { readonly kind: "silence" }
  /** Answered by the server; then the connection breaks, and nobody sees the answer. */
  | { readonly kind: "lost answer" }
  /** The connection breaks after so many bytes of the answer's body. */
  | { readonly kind: "cut body"; readonly bytes: number }
  /** A byte of the answer's body now and then. */
  | { readonly kind: "drip"; readonly everyMs: number }
  /** One byte of the answer's body is another. */
  | { readonly kind: "flipped byte"; readonly at: number }
  /** The head of the answer is changed on its way. */
  | { readonly kind: "changed head"; readonly change: (headers: IncomingHttpHeaders) => IncomingHttpHeaders }
  /** Somebody else answers, with a page. */
  | { readonly kind: "page" }
  /** Waits until somebody lets it go. */
  | { readonly kind: "wait"; readonly until: Promise<void> };

export interface FaultProxy {
  readonly endpoint: string;
  /** Judges each request; null: it passes unchanged. */
  fault: (method: string, url: URL, headers: IncomingHttpHeaders) => Fault | null;
  /** What has passed or been answered: `PUT /lake/...`. */
  readonly requests: { readonly method: string; readonly url: URL }[];
  /** Bytes of the bodies of answers that were passed on. */
  bytesOut: number;
  stop(): Promise<void>;
}

/** Starts a proxy before `target`. */
export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    void handle(incoming, outgoing);
  });
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const url = new URL(incoming.url ?? "/", target);
    const method = incoming.method ?? "GET";
    proxy.requests.push({ method, url });
    const fault = proxy.fault(method, url, incoming.headers);
    if (fault?.kind === "silence") {
      incoming.resume();
      return;
    }
    if (fault?.kind === "empty list") {
      outgoing.writeHead(200, { "content-type": "application/xml" });
      outgoing.end('<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>');
      return;
    }
    if (fault?.kind === "endless list") {
      const token = fault.token === null ? "" : `<NextContinuationToken>${fault.token}</NextContinuationToken>`;
      outgoing.writeHead(200, { "content-type": "application/xml" });
      outgoing.end(`<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>${token}</ListBucketResult>`);
      return;
    }
    if (fault?.kind === "page") {
      incoming.resume();
      outgoing.writeHead(200, { "content-type": "text/html" });
      outgoing.end(method === "HEAD" ? undefined : "<html>The store is being repaired.</html>");
      return;
    }
    if (fault?.kind === "status") {
      incoming.resume();
      await once(incoming, "end").catch(() => undefined);
      outgoing.writeHead(fault.status, { "content-type": "application/xml" });
      outgoing.end(`<?xml version="1.0"?><Error><Code>${fault.code}</Code><Message>injected</Message></Error>`);
      return;
    }
    if (fault?.kind === "wait") {
      await fault.until;
    }
    const passed = request(
      { hostname, port, method, path: incoming.url, headers: incoming.headers, agent: false },
      (answer) => {
        if (fault?.kind === "lost answer") {
          answer.resume();
          answer.on("end", () => {
            incoming.socket.destroy();
          });
          return;
        }
        if (fault?.kind === "stale list") {
          void passStaleList(answer, outgoing, Date.now() - fault.lagMs);
          return;
        }
        const headers = fault?.kind === "changed head" ? fault.change(answer.headers) : answer.headers;
        outgoing.writeHead(answer.statusCode ?? 500, headers);
        if (fault?.kind === "drip") {
          void drip(answer, outgoing, fault.everyMs);
          return;
        }
        let sent = 0;
        answer.on("data", (chunk: Buffer) => {
          if (fault?.kind === "cut body" && sent + chunk.length >= fault.bytes) {
            outgoing.write(chunk.subarray(0, fault.bytes - sent), () => incoming.socket.destroy());
            answer.destroy();
            return;
          }
          if (fault?.kind === "flipped byte" && fault.at >= sent && fault.at < sent + chunk.length) {
            chunk.writeUInt8(chunk.readUInt8(fault.at - sent) ^ 0xff, fault.at - sent);
          }
          sent += chunk.length;
          proxy.bytesOut += chunk.length;
          outgoing.write(chunk);
        });
        answer.on("end", () => outgoing.end());
      },
    );
    passed.on("error", () => outgoing.destroy());
    incoming.on("error", () => passed.destroy());
    incoming.pipe(passed);
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: FaultProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fault: () => null,
    requests: [],
    bytesOut: 0,
    stop: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
  return proxy;
}

async function drip(answer: IncomingMessage, outgoing: ServerResponse, everyMs: number): Promise<void> {
  const body = Buffer.concat(await answer.toArray());
  for (let at = 0; at < body.length && !outgoing.destroyed; at++) {
    outgoing.write(body.subarray(at, at + 1));
    await sleep(everyMs);
  }
  outgoing.end();
}

/** A list of the server, without what is younger. */
async function passStaleList(answer: IncomingMessage, outgoing: ServerResponse, youngestMs: number): Promise<void> {
  const whole = (await answer.setEncoding("utf8").toArray()).join("");
  const listed = whole.replaceAll(/<Contents>.*?<\/Contents>/gsu, (entry) => {
    const modified = /<LastModified>([^<]+)</u.exec(entry)?.[1] ?? "";
    return Date.parse(modified) > youngestMs ? "" : entry;
  });
  outgoing.writeHead(answer.statusCode ?? 500, { "content-type": "application/xml" });
  outgoing.end(listed);
}

/**
 * A store that ignores `If-None-Match` with requests that `applies` is true of. Signed headers cannot be taken away; a
 * server that has forgotten the object comes to the same.
 */
export function replaces(
  server: S3Server,
  applies: (method: string, url: URL) => boolean = () => true,
): FaultProxy["fault"] {
  return (method, url) => {
    if (applies(method, url)) {
      rmSync(path.join(server.directory, decodeURIComponent(url.pathname)), { force: true });
    }
    return null;
  };
}
