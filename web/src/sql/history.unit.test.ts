import { afterAll, beforeEach, expect, it, vi } from "vitest";

vi.mock("react", () => ({ useSyncExternalStore: (_subscribe: unknown, read: () => unknown) => read() }));

const storage = new Map<string, string>();
let isFull = false;

beforeEach(() => {
  storage.clear();
  isFull = false;
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => storage.get(key) ?? null,
    setItem: (key: string, value: string) => {
      if (isFull) {
        throw new DOMException("full", "QuotaExceededError");
      }
      storage.set(key, value);
    },
  });
});
afterAll(() => {
  vi.unstubAllGlobals();
});

/** The history in a tab of its own; `hear` tells it that another tab has changed something. */
async function openTab() {
  const tab = new EventTarget();
  vi.stubGlobal("window", tab);
  vi.resetModules();
  const { forgetAll, remember, useHistory } = await import("./history.js");
  return {
    forgetAll: () => forgetAll("ann"),
    remember: (sql: string) => remember("ann", { sql, atMs: 0, rows: 1, milliseconds: 1 }),
    shown: () => useHistory("ann").map(({ sql }) => sql),
    hear: () => tab.dispatchEvent(Object.assign(new Event("storage"), { key: [...storage.keys()][0] })),
  };
}

it("keeps what another tab has remembered", async () => {
  const [one, other] = [await openTab(), await openTab()];
  one.remember("SELECT 1");
  other.remember("SELECT 2");
  one.remember("SELECT 3");
  expect(one.shown()).toEqual(["SELECT 3", "SELECT 2", "SELECT 1"]);
  expect((await openTab()).shown()).toEqual(one.shown());
});

it("shows what another tab has remembered, and no more what it has forgotten", async () => {
  const [one, other] = [await openTab(), await openTab()];
  expect(one.shown()).toEqual([]);
  other.remember("SELECT 1");
  one.hear();
  expect(one.shown()).toEqual(["SELECT 1"]);
  other.forgetAll();
  one.hear();
  expect(one.shown()).toEqual([]);
});

it("remembers in a browser that keeps no more", async () => {
  const tab = await openTab();
  tab.remember("SELECT 1");
  isFull = true;
  tab.remember("SELECT 2");
  tab.remember("SELECT 3");
  expect(tab.shown()).toEqual(["SELECT 3", "SELECT 2", "SELECT 1"]);
});
