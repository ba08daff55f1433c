/**
 * Random sequences of mint, claim, grant, ungrant, group changes and revoke by several callers, through HTTP, against a
 * plain model of the rules: sets, and loops over them. It shares no code with the server.
 */
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import type { TestWeb, WebAnswer } from "../../helpers/web/web-server.js";

const { grants, ingestion } = routes;

interface Person {
  readonly name: string;
  readonly email: string | null;
}
const people: readonly Person[] = [
  { name: "root@example.com", email: "root@example.com" },
  { name: "ann@example.com", email: "ann@example.com" },
  { name: "bob@example.com", email: "bob@example.com" },
  { name: "robot", email: null },
];
const audiences = ["public", "red", "green", "blue"];
const maxClaims = 2;
const maxKeys = 4;

type Command =
  | { readonly kind: "mint"; readonly who: number; readonly audience: string | null }
  | { readonly kind: "revoke"; readonly who: number; readonly key: number }
  | {
      readonly kind: "grant" | "ungrant";
      readonly who: number;
      readonly right: "read" | "mint";
      readonly audience: string;
      readonly member: string;
    }
  | {
      readonly kind: "join" | "leave";
      readonly who: number;
      readonly group: string;
      readonly member: string;
    }
  | { readonly kind: "found" | "disband"; readonly who: number; readonly group: string }
  | { readonly kind: "mine"; readonly who: number };

/** The rules over plain collections. */
class Model {
  /** `audience kind member` to who created it. */
  readonly grants = new Map<string, string>([["public read *", "migration"]]);
  readonly groups = new Map<string, Set<string>>([
    ["admins", new Set(["user:root@example.com"])],
    ["team", new Set()],
  ]);
  readonly keys: { readonly audience: string; readonly by: string; live: boolean }[] = [];
  readonly #selfService: boolean;

  constructor(selfService: boolean) {
    this.#selfService = selfService;
  }

  #inGroup(person: Person, group: string): boolean {
    const members = this.groups.get(group) ?? new Set();
    return members.has("*") || (person.email !== null && members.has(`user:${person.email}`));
  }

  isAdmin(person: Person): boolean {
    return this.#inGroup(person, "admins");
  }

  holds(person: Person, right: string, audience: string): boolean {
    if (this.grants.has(`${audience} ${right} *`)) {
      return true;
    }
    if (person.email === null) {
      return false;
    }
    if (this.grants.has(`${audience} ${right} user:${person.email}`)) {
      return true;
    }
    return this.grants.has(`${audience} ${right} group:team`) && this.#inGroup(person, "team");
  }

  /** Status, and `claimed` with 201. */
  mint(person: Person, named: string | null): readonly [number, boolean] {
    const audience = named ?? "public";
    const admin = this.isAdmin(person);
    if (!admin && !this.#selfService) {
      return [403, false];
    }
    const live = this.keys.filter((key) => key.live && key.by === person.name).length;
    if (!admin && live >= maxKeys) {
      return [403, false];
    }
    const exists =
      this.keys.some((key) => key.audience === audience) ||
      [...this.grants.keys()].some((grant) => grant.startsWith(`${audience} `));
    let claimed = false;
    if (!this.holds(person, "mint", audience)) {
      if (exists || audience === "public" || person.email === null) {
        return [403, false];
      }
      const claims = [...this.grants].filter(
        ([grant, by]) => by === person.name && grant.endsWith(` mint user:${person.email}`),
      ).length;
      if (!admin && claims >= maxClaims) {
        return [403, false];
      }
      this.grants.set(`${audience} mint user:${person.email}`, person.name);
      this.grants.set(`${audience} read user:${person.email}`, person.name);
      claimed = true;
    }
    this.keys.push({ audience, by: person.name, live: true });
    return [201, claimed];
  }

  apply(command: Command): number {
    const person = people[command.who] as Person;
    if (command.kind === "mine") {
      return 200;
    }
    if (command.kind === "mint") {
      return this.mint(person, command.audience)[0];
    }
    if (!this.isAdmin(person)) {
      return 403;
    }
    switch (command.kind) {
      case "revoke": {
        const key = this.keys[command.key];
        if (key === undefined) {
          return 404;
        }
        key.live = false;
        return 200;
      }
      case "grant": {
        if (command.member === "group:team" && !this.groups.has("team")) {
          return 400;
        }
        const grant = `${command.audience} ${command.right} ${command.member}`;
        if (this.grants.has(grant)) {
          return 200;
        }
        this.grants.set(grant, person.name);
        return 201;
      }
      case "ungrant":
        return this.grants.delete(`${command.audience} ${command.right} ${command.member}`) ? 204 : 404;
      case "found": {
        const known = this.groups.has(command.group);
        if (!known) {
          this.groups.set(command.group, new Set());
        }
        return known ? 200 : 201;
      }
      case "disband": {
        if (command.group === "admins") {
          return 409;
        }
        for (const grant of this.grants.keys()) {
          if (grant.endsWith(` group:${command.group}`)) {
            this.grants.delete(grant);
          }
        }
        return this.groups.delete(command.group) ? 204 : 404;
      }
      case "join": {
        const members = this.groups.get(command.group);
        if (members === undefined) {
          return 404;
        }
        const known = members.has(command.member);
        members.add(command.member);
        return known ? 200 : 201;
      }
      case "leave": {
        const members = this.groups.get(command.group);
        if (members === undefined || !members.has(command.member)) {
          return 404;
        }
        if (command.group === "admins" && members.size === 1) {
          return 409;
        }
        members.delete(command.member);
        return 204;
      }
    }
  }
}

const who = fc.nat({ max: people.length - 1 });
// The administrator does most of the administering, or little would come of it.
const mostlyRoot = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: who });
const audience = fc.constantFrom(...audiences);
const right = fc.constantFrom("read" as const, "mint" as const);
const user = fc.constantFrom("*", ...people.flatMap(({ email }) => (email === null ? [] : [`user:${email}`])));
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("mint" as const),
      who,
      audience: fc.option(audience, { freq: 6 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("revoke" as const),
      who: mostlyRoot,
      key: fc.nat({ max: 12 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom("grant" as const, "ungrant" as const),
      who: mostlyRoot,
      right,
      audience,
      member: fc.oneof(user, fc.constant("group:team")),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("join" as const, "leave" as const),
      who: mostlyRoot,
      group: fc.constantFrom("admins", "team", "team"),
      member: user,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("found" as const, "disband" as const),
      who: mostlyRoot,
      group: fc.constantFrom("admins", "team", "team", "team"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("mine" as const), who }) },
);

const t = useWeb({
  SVC_SELF_SERVICE_MINT: "true",
  SVC_SELF_SERVICE_MAX_CLAIMS_PER_CALLER: String(maxClaims),
  SVC_SELF_SERVICE_MAX_KEYS_PER_CALLER: String(maxKeys),
});
let closed: TestWeb;
let cookies: string[];

beforeAll(async () => {
  closed = await t.beside();
  cookies = await Promise.all(
    people.map(({ name, email }) => (email === null ? t.identities.anonymousCookie(name) : t.identities.cookie(email))),
  );
});
afterAll(() => closed.stop());

async function reset(): Promise<void> {
  await t.web.database.sql.unsafe(`
    truncate ingestion_api_keys, audience_grants;
    insert into audience_grants values ('public', 'read', '*', now(), 'migration');
    delete from group_members;
    insert into groups (name, created_by) values ('team', 'test') on conflict do nothing;
    insert into group_members (group_name, member, created_by)
      values ('admins', 'user:root@example.com', 'test')`);
}

function send(web: TestWeb, c: Command, keyIds: readonly string[]): Promise<WebAnswer> {
  const cookie = cookies[c.who] ?? "";
  switch (c.kind) {
    case "mint": {
      const body = { name: "k", ...(c.audience === null ? {} : { audience: c.audience }) };
      return web.request("POST", ingestion, { cookie, body });
    }
    case "revoke": {
      const id = keyIds[c.key] ?? "00000000-0000-4000-8000-000000000000";
      return web.request("DELETE", `${ingestion}/${id}`, { cookie });
    }
    case "grant": {
      const body = { audience: c.audience, kind: c.right, member: c.member };
      return web.request("POST", grants, { cookie, body });
    }
    case "ungrant": {
      const query = new URLSearchParams({ audience: c.audience, kind: c.right, member: c.member });
      return web.request("DELETE", `${grants}?${query.toString()}`, { cookie });
    }
    case "found":
      return web.request("POST", "/api/groups", { cookie, body: { name: c.group } });
    case "disband":
      return web.request("DELETE", `/api/groups/${c.group}`, { cookie });
    case "join":
      return web.request("POST", `/api/groups/${c.group}/members`, {
        cookie,
        body: { member: c.member },
      });
    case "leave":
      return web.request("DELETE", `/api/groups/${c.group}/members?member=${encodeURIComponent(c.member)}`, { cookie });
    case "mine":
      return web.request("GET", `${grants}/my-audiences`, { cookie });
  }
}

const mine = (model: Model, person: Person, selfService: boolean): Record<string, unknown> => ({
  email: person.email,
  is_admin: model.isAdmin(person),
  read: audiences.filter((a) => model.holds(person, "read", a)).toSorted(),
  mint: audiences.filter((a) => model.holds(person, "mint", a)).toSorted(),
  // People join the groups one by one here, and * may be one of them.
  admins_open: model.groups.get("admins")?.has("*") === true,
  self_service: selfService,
});

it("every sequence of requests is answered as the rules say, and leaves what they say", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.boolean(),
      fc.array(command, { minLength: 1, maxLength: 40, size: "max" }),
      async (selfService, commands) => {
        await reset();
        const web = selfService ? t.web : closed;
        const model = new Model(selfService);
        const keyIds: string[] = [];
        const firstRevoked = new Map<string, string>();
        const expected: unknown[] = [];
        const observed: unknown[] = [];
        for (const c of commands) {
          const person = people[c.who] as Person;
          const answer = await send(web, c, keyIds);
          if (c.kind === "mint") {
            const [status, claimed] = model.mint(person, c.audience);
            expected.push([c, status, claimed]);
            observed.push([c, answer.status, answer.json.claimed ?? false]);
            if (answer.status === 201) {
              keyIds.push(answer.json.key_id);
            }
            continue;
          }
          expected.push([c, model.apply(c)]);
          observed.push([c, answer.status]);
          if (c.kind === "mine") {
            expected.push(mine(model, person, selfService));
            observed.push(answer.json);
          }
          if (c.kind === "revoke" && answer.status === 200) {
            const id = keyIds[c.key] ?? "";
            const revokedAt = String(answer.json.revoked_at);
            expected.push(firstRevoked.get(id) ?? revokedAt);
            observed.push(revokedAt);
            if (!firstRevoked.has(id)) {
              firstRevoked.set(id, revokedAt);
            }
          }
        }
        expect(observed).toEqual(expected);
        const rows = await web.database.sql<{ grant: string; created_by: string }[]>`
          select audience || ' ' || kind || ' ' || member as grant, created_by from audience_grants`;
        expect(rows.map((row) => `${row.grant} by ${row.created_by}`).toSorted()).toEqual(
          [...model.grants].map(([grant, by]) => `${grant} by ${by}`).toSorted(),
        );
        const keys = await web.database.sql<{ key_id: string; audience: string; created_by: string; live: boolean }[]>`
          select key_id, audience, created_by, revoked_at is null as live from ingestion_api_keys`;
        const byId = new Map(keys.map((key) => [key.key_id, key]));
        expect(keys).toHaveLength(model.keys.length);
        for (const [i, key] of model.keys.entries()) {
          const row = byId.get(keyIds[i] ?? "");
          expect(row).toMatchObject({ audience: key.audience, created_by: key.by, live: key.live });
        }
      },
    ),
    { numRuns: 40 },
  );
});
