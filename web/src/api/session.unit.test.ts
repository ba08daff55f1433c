import { expect, it, vi } from "vitest";

vi.stubGlobal("document", { baseURI: "http://localhost/" });
vi.stubGlobal(
  "BroadcastChannel",
  class {
    addEventListener(): void {}
    postMessage(): void {}
  },
);
const { renewSession, startSession, useSession } = await import("./session.js");
vi.mock("react", () => ({ useSyncExternalStore: (_subscribe: unknown, read: () => unknown) => read() }));

/** The server answers with these statuses, by the end of the path. */
function answer(statuses: Readonly<Record<"me" | "refresh", number>>): void {
  vi.stubGlobal("fetch", (url: string) => {
    const status = url.endsWith("/auth/me") ? statuses.me : statuses.refresh;
    const body = status === 200 ? { email: "ann@example.com", name: "Ann", subject: "1", is_admin: false } : {};
    return Promise.resolve(
      Response.json({ ...body, code: status === 503 ? "UNAVAILABLE" : "UNAUTHENTICATED" }, { status }),
    );
  });
}

it("ends by what the provider says, not because it cannot be asked", async () => {
  answer({ me: 401, refresh: 401 });
  expect(await startSession()).toBe(false);
  answer({ me: 401, refresh: 503 });
  await expect(startSession()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  answer({ me: 200, refresh: 503 });
  expect(await startSession()).toBe(true);
  await expect(renewSession()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(useSession()).toMatchObject({ kind: "active" });
  answer({ me: 200, refresh: 200 });
  await renewSession();
});
