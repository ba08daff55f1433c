import { expect, it } from "vitest";

import type { Grant, IngestionKey, MyAudiences } from "../../api/wire.js";
import { audiencesOf } from "./audiences.js";

const mine = { read: ["b"], mint: ["c"] } as unknown as MyAudiences;
const grant = (audience: string, member: string): Grant => ({
  audience,
  kind: "read",
  member,
  created_at: "",
  created_by: "",
});
const key = (audience: string, revoked_at: string | null): IngestionKey =>
  ({ audience, revoked_at }) as unknown as IngestionKey;

it("has the audiences of everything that names one, by name, with their grants and live keys", () => {
  const grants = [grant("b", "*"), grant("a", "user:x@y"), grant("b", "user:x@y")];
  const keys = [key("d", null), key("b", null), key("b", "2026-01-01T00:00:00Z"), key("b", null)];
  expect(audiencesOf(mine, grants, keys)).toEqual([
    { name: "a", read: false, mint: false, grants: [grants[1]], liveKeys: 0 },
    { name: "b", read: true, mint: false, grants: [grants[0], grants[2]], liveKeys: 2 },
    { name: "c", read: false, mint: true, grants: [], liveKeys: 0 },
    { name: "d", read: false, mint: false, grants: [], liveKeys: 1 },
  ]);
  expect(audiencesOf(mine, null, null)).toMatchObject([
    { name: "b", grants: null, liveKeys: null },
    { name: "c", grants: null, liveKeys: null },
  ]);
});

it("looks at each grant and key a few times, however many audiences there are", () => {
  let looks = 0;
  const counted = <T extends object>(row: T): T =>
    new Proxy(row, {
      get: (target, name) => {
        looks++;
        return Reflect.get(target, name) as unknown;
      },
    });
  const names = Array.from({ length: 1000 }, (_, at) => `team-${at}`);
  audiencesOf(
    mine,
    names.map((name) => counted(grant(name, "*"))),
    names.map((name) => counted(key(name, null))),
  );
  expect(looks).toBeLessThan(names.length * 10);
});
