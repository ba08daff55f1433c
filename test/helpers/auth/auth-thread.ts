/** A thread that answers authorization headers through the shared key store. */
import { parentPort, workerData } from "node:worker_threads";

import type { AuthOutcome } from "../../../src/auth/authenticator.js";
import { type KeyAuthenticatorHandle, openKeyAuthenticator } from "../../../src/auth/keys/key-authenticator.js";
import { Channel } from "../../../src/runtime/threads/channel.js";

/** What it offers: `wait` looks up where it must, `now` answers from memory alone. */
export interface AuthThread {
  wait(authorizations: readonly string[]): Promise<readonly AuthOutcome[]>;
  now(authorizations: readonly string[]): Promise<readonly (AuthOutcome | null)[]>;
  /** The thread ends afterwards. */
  stop(): Promise<void>;
}

if (parentPort === null) {
  throw new Error("this runs in a worker thread");
}
const port = parentPort;
const keys = openKeyAuthenticator((workerData as { handle: KeyAuthenticatorHandle }).handle);

void new Channel<AuthThread, object>(port, "the test", {
  wait: (authorizations) => Promise.all(authorizations.map((a) => keys.authenticate(a))),
  now: (authorizations) => Promise.resolve(authorizations.map((a) => keys.authenticateNow(a))),
  stop: async () => {
    await keys.stop();
    // After the answer.
    setImmediate(() => {
      port.close();
    });
  },
});
