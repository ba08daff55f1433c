import { describe, expect, it } from "vitest";

import type { Principal } from "../../src/auth/principal.js";
import { openTicket, sealTicket, type StatementContent } from "../../src/query/ticket.js";

const secret = Buffer.alloc(32, 1);
const caller: Principal = {
  kind: "analytics_key",
  keyId: "k1",
  issuer: null,
  subject: null,
  email: null,
  name: null,
  audience: null,
};
const content: StatementContent = {
  sql: "SELECT ?",
  range: { beginNs: 1n, endNs: 9_007_199_254_740_993n },
  declared: [{ name: "1", type: null }],
  sets: [[{ type: "BIGINT", text: "1" }], [{ type: "BIGINT", text: null }]],
};
const expiresMs = 1000;

describe("a ticket", () => {
  it("holds what was put into it, and an id of its own", () => {
    const handles = [0, 1].map(() => sealTicket(secret, caller, "ticket", content, expiresMs));
    const opened = handles.map((handle) => openTicket(secret, caller, "ticket", handle, 999));
    expect(opened[0]).toMatchObject(content);
    expect(opened[0]?.id).not.toBe(opened[1]?.id);
  });

  it.each([
    ["ticket", /^The ticket is not valid on this server; ask for the flight again\./u],
    ["statement", /^The prepared statement's handle is not valid on this server; prepare the statement again\./u],
  ] as const)("of a server with another secret is refused with what to do: %s", (use, message) => {
    const handle = sealTicket(Buffer.alloc(32, 2), caller, use, content, expiresMs);
    expect(() => openTicket(secret, caller, use, handle, 0)).toThrow(message);
    expect(() => openTicket(secret, caller, use, handle, 0)).toThrow("share SVC_ANALYTICS_TICKET_SECRET");
  });

  it("ends with its time", () => {
    const handle = sealTicket(secret, caller, "ticket", content, expiresMs);
    expect(() => openTicket(secret, caller, "ticket", handle, expiresMs)).toThrow(/has expired/u);
  });

  it("is no handle of a statement, nor the other way round", () => {
    const handle = sealTicket(secret, caller, "statement", content, expiresMs);
    expect(() => openTicket(secret, caller, "ticket", handle, 0)).toThrow(/is not valid/u);
  });

  it("is worth nothing under another secret, to another caller, or changed", () => {
    const handle = sealTicket(secret, caller, "ticket", content, expiresMs);
    const foreign = Buffer.alloc(32, 2);
    expect(() => openTicket(foreign, caller, "ticket", handle, 0)).toThrow(/is not valid/u);
    const other = { ...caller, keyId: "k2" };
    expect(() => openTicket(secret, other, "ticket", handle, 0)).toThrow(/another caller/u);
    const ann: Principal = { ...caller, kind: "oidc", keyId: null, issuer: "https://a", subject: "s", name: "s" };
    const hers = sealTicket(secret, ann, "ticket", content, expiresMs);
    for (const changed of [{ issuer: "https://b" }, { subject: "t" }]) {
      expect(() => openTicket(secret, { ...ann, ...changed }, "ticket", hers, 0)).toThrow(/another caller/u);
    }
    for (let i = 0; i < handle.length; i++) {
      const changed = Buffer.from(handle);
      changed[i] = (changed[i] ?? 0) ^ 0x20;
      expect(() => openTicket(secret, caller, "ticket", changed, 0)).toThrow(/is not valid/u);
      expect(() => openTicket(secret, caller, "ticket", handle.subarray(0, i), 0)).toThrow(/is not valid/u);
    }
  });
});
