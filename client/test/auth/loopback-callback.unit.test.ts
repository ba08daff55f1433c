import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type CallbackListener, listenForCallback } from "../../src/auth/loopback-callback.js";

let listener: CallbackListener;
beforeEach(async () => {
  listener = await listenForCallback(0);
});
afterEach(() => listener.close());

/** The status of `GET target`, sent as it is written. */
async function statusOf(target: string): Promise<number | undefined> {
  const { port } = new URL(listener.redirectUri);
  const sent = request({ host: "127.0.0.1", port, path: target }).end();
  const [response] = (await once(sent, "response")) as [{ statusCode?: number; resume: () => void }];
  response.resume();
  return response.statusCode;
}

describe("a listener for the provider's redirect", () => {
  it.each(["//", "http://", "//[", "//a:b:c/callback", "http://127.0.0.1:99999/callback"])(
    "answers %j, which is no address, and goes on",
    async (target) => {
      expect(await statusOf(target)).toBe(400);
      expect(await statusOf("/favicon.ico")).toBe(404);
    },
  );

  it("closes what a browser connected ahead of need, once the answer is sent", async () => {
    const { redirectUri } = listener;
    const idle = connect(Number(new URL(redirectUri).port), "127.0.0.1");
    await once(idle, "connect");
    const closed = once(idle, "close", { signal: AbortSignal.timeout(5000) });
    const callback = listener.wait("s", new AbortController().signal);
    const page = fetch(`${redirectUri}?code=c&state=s`);
    (await callback).answer(null);
    listener.close();
    expect(await (await page).text()).toContain("You are logged in");
    await closed;
  });
});
