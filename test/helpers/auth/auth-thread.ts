/** A thread that answers authorization headers through the shared key store. */
import { parentPort, workerData } from "node:worker_threads";
import {
  openKeyAuthenticator,
  type KeyAuthenticatorHandle,
} from "../../../src/auth/keys/key-authenticator.js";

const keys = openKeyAuthenticator((workerData as { handle: KeyAuthenticatorHandle }).handle);

/** `wait` looks up where it must, `now` answers from memory alone. */
export type AuthThreadRequest =
  | {
      readonly id: number;
      readonly kind: "wait" | "now";
      readonly authorizations: readonly string[];
    }
  | { readonly id: number; readonly kind: "stop" };

async function answer(request: AuthThreadRequest): Promise<unknown> {
  if (request.kind === "stop") {
    await keys.stop();
    return [];
  }
  const { kind, authorizations } = request;
  if (kind === "now") return authorizations.map((a) => keys.authenticateNow(a));
  return Promise.all(authorizations.map((a) => keys.authenticate(a)));
}

parentPort?.on("message", (request: AuthThreadRequest) => {
  void (async () => {
    const result = await answer(request);
    parentPort?.postMessage({ id: request.id, result }, []);
    if (request.kind === "stop") parentPort?.close();
  })();
});
