/** The audit: every change over HTTP leaves its line, in the same transaction. */
import { request } from "node:http";

import { beforeEach, describe, expect, it } from "vitest";

import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import type { WebAnswer } from "../../helpers/web/web-server.js";

const { analytics, audit, grants, groups, ingestion } = routes;

const t = useWeb();
beforeEach(t.reset);

const asAdmin = (method: string, path: string, body?: unknown): Promise<WebAnswer> => t.as(t.admin, method, path, body);
const newestAudit = async (): Promise<Record<string, unknown>> => (await asAdmin("GET", `${audit}?limit=1`)).json[0];

describe("the audit", () => {
  it("names who, what, when and from where for each change, and appends nothing for none", async () => {
    const before = await t.web.count("select count(*) n from audit_log");
    const changes: [string, string, unknown, Record<string, unknown>][] = [
      [
        "POST",
        grants,
        { audience: "aud", kind: "read", member: "*" },
        { action: "grant.create", target: "aud/read/*" },
      ],
      [
        "DELETE",
        `${grants}?audience=aud&kind=read&member=*`,
        undefined,
        { action: "grant.delete", target: "aud/read/*" },
      ],
      ["POST", groups, { name: "team" }, { action: "group.create", target: "team" }],
      ["POST", `${groups}/team/members`, { member: "*" }, { action: "group.add_member", target: "team" }],
      ["DELETE", `${groups}/team/members?member=*`, undefined, { action: "group.remove_member", target: "team" }],
      ["DELETE", `${groups}/team`, undefined, { action: "group.delete", target: "team" }],
      ["POST", analytics, { name: "k" }, { action: "key.mint" }],
      ["POST", ingestion, { name: "k", audience: `c-${Date.now()}` }, { action: "key.mint" }],
    ];
    for (const [method, path, body, expected] of changes) {
      const startMs = Date.now();
      const answer = await t.web.request(method, path, {
        cookie: t.admin,
        headers: { "x-forwarded-for": "203.0.113.9" },
        ...(body === undefined ? {} : { body }),
      });
      expect(answer.status).toBeLessThan(300);
      const entry = await newestAudit();
      expect(entry).toMatchObject({ actor: "admin@example.com", ...expected });
      expect(entry["details"]).toMatchObject({
        from: "127.0.0.1",
        forwarded_for: "203.0.113.9",
        issuer: t.identities.provider.issuer,
        subject: "sub-admin@example.com",
      });
      expect(Math.abs(Date.parse(String(entry["at"])) - startMs)).toBeLessThan(60_000);
    }
    // The claim has a line of its own, before that of its key.
    const [mint, claim] = (await asAdmin("GET", `${audit}?limit=2`)).json;
    expect(claim).toMatchObject({ action: "audience.claim", target: mint.details.audience });
    const { json: keys } = await asAdmin("GET", `${ingestion}?limit=1`);
    expect(mint.target).toBe(keys[0].key_id);
    await asAdmin("DELETE", `${ingestion}/${mint.target}`);
    expect(await newestAudit()).toMatchObject({ action: "key.revoke", target: mint.target });
    expect(await t.web.count("select count(*) n from audit_log")).toBe(before + changes.length + 2);

    // What changes nothing leaves no line.
    await asAdmin("DELETE", `${ingestion}/${mint.target}`);
    await asAdmin("POST", groups, { name: "admins" });
    await asAdmin("POST", grants, { audience: "public", kind: "read", member: "*" });
    await asAdmin("DELETE", `${groups}/none`);
    await t.as(t.ann, "POST", groups, { name: "forbidden" });
    expect(await t.web.count("select count(*) n from audit_log")).toBe(before + changes.length + 2);
  });

  it.each(["uws", "node"])("keeps the end of what proxies append, over %s", async (driver) => {
    const web = await t.beside({ SVC_HTTP_DRIVER: driver });
    const forged = "198.51.100.7, ".repeat(30);
    const status = await new Promise((resolve, reject) => {
      request(`${web.url}${groups}`, {
        method: "POST",
        headers: {
          cookie: t.admin,
          "content-type": "application/json",
          "x-forwarded-for": [`${forged}198.51.100.8`, "203.0.113.9", "192.0.2.1"],
        },
      })
        .on("error", reject)
        .on("response", (response) => {
          response.resume();
          resolve(response.statusCode);
        })
        .end(JSON.stringify({ name: `forwarded-${driver}` }));
    });
    expect(status).toBeLessThan(300);
    const { details } = (await newestAudit()) as { details: { forwarded_for: string } };
    expect(details.forwarded_for).toHaveLength(255);
    expect(details.forwarded_for).toMatch(/, 198\.51\.100\.8, 203\.0\.113\.9, 192\.0\.2\.1$/u);
    await web.stop();
  });

  it("is written in the transaction of the change: without its line there is no change", async () => {
    await t.web.database.sql.unsafe("alter table audit_log add constraint none check (false) not valid");
    const answers = [
      await asAdmin("POST", grants, { audience: "aud", kind: "read", member: "*" }),
      await asAdmin("POST", groups, { name: "team" }),
      await asAdmin("POST", ingestion, { name: "k", audience: "unaudited" }),
    ];
    await t.web.database.sql.unsafe("alter table audit_log drop constraint none");
    expect(answers.map(({ status }) => status)).toEqual([500, 500, 500]);
    expect(await t.web.count("select count(*) n from audience_grants where audience in ('aud', 'unaudited')")).toBe(0);
    expect(await t.web.count("select count(*) n from groups where name = 'team'")).toBe(0);
    expect(await t.web.count("select count(*) n from ingestion_api_keys where audience = 'unaudited'")).toBe(0);
  });

  it("is listed newest first, in pages", async () => {
    for (let i = 0; i < 3; i++) {
      await asAdmin("POST", groups, { name: `g-${i}` });
    }
    const list = async (query: string): Promise<string[]> =>
      (await asAdmin("GET", `${audit}?${query}`)).json.map((row: { target: string }) => row.target);
    expect(await list("limit=3")).toEqual(["g-2", "g-1", "g-0"]);
    expect(await list("limit=1&offset=1")).toEqual(["g-1"]);
    expect((await asAdmin("GET", `${audit}?limit=0`)).status).toBe(400);
  });
});
