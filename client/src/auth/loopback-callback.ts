/** The end of a browser login on this machine: a web server on loopback that waits for the provider's redirect. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { CredentialError } from "./credential-error.js";

/** Where the provider sends the browser back to, unless the port is told. */
export const defaultCallbackPort = 48_080;
const callbackPath = "/callback";

/** A redirect that came with the right state. */
interface Callback {
  /** The whole address, query included. */
  readonly url: URL;
  /** Tells the person in the browser how it ended. */
  answer(failure: string | null): void;
}

/** A listener that waits. */
export interface CallbackListener {
  readonly redirectUri: string;
  /**
   * The first redirect with this state. Others are answered with a word about why, and passed over: anything on
   * this machine can send them, and a tab of an earlier login does.
   * @throws CredentialError CANCELLED with the signal
   */
  wait(state: string, signal: AbortSignal): Promise<Callback>;
  /** Takes no more, and closes every connection as soon as the answers that were begun are sent. */
  close(): void;
}

/**
 * Listens on 127.0.0.1.
 * @param port 0 picks a free one
 * @throws CredentialError PORT_TAKEN
 */
export async function listenForCallback(port: number): Promise<CallbackListener> {
  let expected: { readonly state: string; readonly take: (callback: Callback) => void } | null = null;
  const answering = new Set<ServerResponse>();
  let closing = false;
  const server = createServer((request, response) => {
    answering.add(response);
    response.once("close", () => {
      answering.delete(response);
      closeConnections();
    });
    const target = request.url ?? "/";
    const url = URL.canParse(target, redirectUri) ? new URL(target, redirectUri) : null;
    if (url === null) {
      respond(response, 400, "This is no address.");
    } else if (request.method !== "GET" || url.pathname !== callbackPath) {
      respond(response, 404, "There is nothing here.");
    } else if (expected === null || url.searchParams.get("state") !== expected.state) {
      respond(response, 400, "This belongs to another login. Go on in the window that was opened last.");
    } else {
      const { take } = expected;
      expected = null;
      take({
        url,
        answer(failure) {
          if (failure === null) {
            respond(response, 200, "You are logged in. You can close this window.");
          } else {
            respond(response, 400, `You are not logged in: ${failure}.`);
          }
        },
      });
    }
  });
  // Browsers open connections ahead of need; one that nothing was sent on counts as busy and keeps the process alive.
  const closeConnections = (): void => {
    if (closing && answering.size === 0) {
      server.closeAllConnections();
    }
  };
  server.listen(port, "127.0.0.1");
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    throw new CredentialError(
      "PORT_TAKEN",
      error.code === "EADDRINUSE"
        ? `port ${port}, to which the browser comes back, is taken (by another login?); use --callback-port with a port that the provider allows, or --device`
        : `port ${port}, to which the browser comes back, cannot be used (${error.code ?? error.message}); use --callback-port or --device`,
      { cause: error },
    );
  });
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${callbackPath}`;
  return {
    redirectUri,
    wait: (state, signal) =>
      new Promise((resolve, reject) => {
        const abort = (): void => {
          expected = null;
          const timedOut = signal.reason instanceof Error && signal.reason.name === "TimeoutError";
          const message = timedOut ? "nobody logged in; try again" : "the login was cancelled";
          reject(new CredentialError("CANCELLED", message));
        };
        if (signal.aborted) {
          abort();
          return;
        }
        signal.addEventListener("abort", abort, { once: true });
        expected = {
          state,
          take(callback) {
            signal.removeEventListener("abort", abort);
            resolve(callback);
          },
        };
      }),
    close() {
      closing = true;
      server.close();
      closeConnections();
    },
  };
}

const style =
  ":root{color-scheme:light dark}" +
  "body{margin:0;min-height:100vh;display:grid;place-items:center;background:light-dark(#f3f5f7,#11151c);" +
  "color:light-dark(#1c2430,#e8ecf2);font:1rem/1.5 system-ui,sans-serif}" +
  "p{margin:1rem;padding:2rem;max-width:26rem;border:1px solid light-dark(#d9dee5,#2a313c);border-radius:12px;" +
  "background:light-dark(#fff,#1c212a);overflow-wrap:anywhere}";
const policy = (): string =>
  `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`;

function respond(response: ServerResponse, status: number, sentence: string): void {
  const text = sentence.replaceAll(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
  const head =
    '<meta name="viewport" content="width=device-width,initial-scale=1">' +
    `<title>telemetry</title><style>${style}</style>`;
  response
    .writeHead(status, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy(),
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      connection: "close",
    })
    .end(`<!doctype html><html lang="en">${head}<p>${text}</p></html>\n`);
}
