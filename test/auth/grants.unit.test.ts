import { describe, expect, it } from "vitest";
import { buildGrants, type GrantsRow } from "../../src/auth/grants/grants.js";
import { anonymousPrincipal, type Principal } from "../../src/auth/principal.js";

const keyId = "00000000-0000-4000-8000-000000000001";
const nobody: Principal = { ...anonymousPrincipal, kind: "oidc", issuer: "i", subject: "s", name: "s" };
const user = (email: string): Principal => ({ ...nobody, email });
const key: Principal = { ...nobody, kind: "analytics_key", issuer: null, subject: null, name: null, keyId };

const read = (name: string, member: string): GrantsRow => ({ source: "read", name, member });
const group = (name: string, member: string): GrantsRow => ({ source: "group", name, member });

function audiences(rows: readonly GrantsRow[], principal: Principal): string[] {
  const answer = buildGrants(rows, "public").readAudiences(principal);
  return answer.kind === "some" ? [...answer.audiences].toSorted() : ["ALL"];
}

describe("read grants", () => {
  const rows = [
    read("public", "*"),
    read("a", "user:Ann@Example.com"),
    read("b", "group:Team"),
    read("c", `key:${keyId}`),
    read("d", "group:everyone"),
    read("e", "group:team"),
    group("Team", "user:bob@example.com"),
    group("everyone", "*"),
  ];

  it("give each caller the audiences of *, of its email, of its groups, and of its key", () => {
    expect(audiences(rows, nobody)).toEqual(["public"]);
    expect(audiences(rows, user("ann@example.com"))).toEqual(["a", "d", "public"]);
    expect(audiences(rows, user("BOB@example.com"))).toEqual(["b", "d", "public"]);
    expect(audiences(rows, key)).toEqual(["c", "public"]);
    expect(audiences(rows, { ...key, keyId: keyId.replace(/1$/, "2") })).toEqual(["public"]);
  });

  it("never take a member of another form for the caller, whatever its email looks like", () => {
    expect(audiences([read("x", "user:key:1"), read("y", "*x")], user("*"))).toEqual([]);
    expect(audiences(rows, user("group:Team"))).toEqual(["d", "public"]);
    expect(audiences(rows, { ...nobody, subject: "ann@example.com" })).toEqual(["public"]);
    expect(audiences(rows, { ...key, email: "ann@example.com" })).toEqual(["c", "public"]);
  });

  it("include unstamped rows exactly when the unstamped audience may be read", () => {
    const some = (unstampedAudience: string, rows: readonly GrantsRow[]): unknown =>
      buildGrants(rows, unstampedAudience).readAudiences(nobody);
    expect(some("public", [read("public", "*")])).toMatchObject({ unstamped: true });
    expect(some("other", [read("public", "*")])).toMatchObject({ unstamped: false });
    expect(some("", [read("public", "*"), read("", "*")])).toMatchObject({ unstamped: false });
    expect(some("public", [])).toMatchObject({ unstamped: false });
  });
});

describe("admins", () => {
  it("are everybody, keys included, while the group holds *", () => {
    const grants = buildGrants([group("admins", "*")], "public");
    expect([nobody, user("a@b.c"), key].map((p) => grants.isAdmin(p))).toEqual([true, true, true]);
  });

  it("are otherwise whose email the group holds, never a key, and no other group counts", () => {
    const grants = buildGrants(
      [group("admins", "user:Root@b.c"), group("Admins", "*"), group("x", "user:a@b.c")],
      "public",
    );
    expect(grants.isAdmin(user("root@B.c"))).toBe(true);
    expect([nobody, user("a@b.c"), key].map((p) => grants.isAdmin(p))).toEqual([false, false, false]);
  });

  it("are nobody when the group is empty, and may read nothing by it", () => {
    expect(buildGrants([], "public").isAdmin(user("root@b.c"))).toBe(false);
    const rows = [group("admins", "user:root@b.c"), read("a", "user:x@b.c")];
    expect(audiences(rows, user("root@b.c"))).toEqual([]);
  });
});
