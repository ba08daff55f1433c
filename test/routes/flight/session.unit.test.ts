/** What is kept from one call to the next: session options of Flight SQL, in a cookie, and values that were bound. */
import { Metadata } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";

import { BoundStatements } from "../../../src/routes/flight/bound-statements.js";
import type { SessionOptionValue } from "../../../src/wire/flight/flight-actions.js";
import { changeSession, closedCookie, engineOf, sessionOptionsOf } from "../../../src/routes/flight/session.js";

function metadataOf(headers: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) {
    metadata.set(name, value);
  }
  return metadata;
}

const text = (value: string) => ({ kind: "text", text: value }) as const;

describe("the option engine", () => {
  it.each(["local", "cluster", "auto"])("is set by a cookie that calls bring back: %s", (engine) => {
    const { errors, setCookie } = changeSession(new Map([["engine", text(engine)]]));
    expect(errors).toEqual(new Map());
    const [cookie = ""] = setCookie?.split(";") ?? [];
    const metadata = metadataOf({ cookie: `other=1; ${cookie}; last=2` });
    expect(engineOf(metadata)).toEqual({ engine });
    expect(sessionOptionsOf(metadata).get("engine")).toBe(engine);
  });

  it("is auto when nothing is said, and again when it is unset", () => {
    expect(engineOf(new Metadata())).toEqual({});
    expect(sessionOptionsOf(new Metadata()).get("engine")).toBe("auto");
    expect(changeSession(new Map([["engine", { kind: "none" }]])).setCookie).toBe(closedCookie);
  });

  it("yields to the metadata of a call", () => {
    const metadata = metadataOf({ cookie: "query-engine=cluster", "query-engine": "local" });
    expect(engineOf(metadata)).toEqual({ engine: "local" });
  });

  it("is refused where it is none, in the option and in the cookie", () => {
    for (const value of [text("spark"), { kind: "other" } as const]) {
      expect(changeSession(new Map([["engine", value]]))).toEqual({
        errors: new Map([["engine", 2]]),
        setCookie: null,
      });
    }
    expect(() => engineOf(metadataOf({ cookie: "query-engine=spark" }))).toThrow(/local, cluster or auto/u);
  });
});

it("catalog and schema are the only ones that there are, and set no cookie", () => {
  const same = new Map<string, SessionOptionValue>([
    ["catalog", text("telemetry")],
    ["schema", { kind: "none" }],
  ]);
  expect(changeSession(same)).toEqual({ errors: new Map(), setCookie: null });
  const { errors } = changeSession(
    new Map([
      ["catalog", text("other")],
      ["engines", text("auto")],
    ] as const),
  );
  expect([...errors.keys()]).toEqual(["catalog", "engines"]);
});

describe("values that a client bound to its first handle", () => {
  const first = (name: string): Buffer => Buffer.from(name);
  const values = Buffer.from("values");
  const large = Buffer.alloc(1.5 * (1 << 20));

  it("stay when another caller binds more than the server remembers", () => {
    const bound = new BoundStatements();
    bound.set("a", first("a"), values);
    bound.set("b", first("small"), values);
    for (let i = 0; i < 32; i++) {
      bound.set("b", first(`b${i}`), large);
    }
    expect(bound.resolve(first("a"))).toBe(values);
    const kept = Array.from({ length: 32 }, (_, i) => first(`b${i}`)).filter((own) => bound.resolve(own) !== own);
    expect(kept.map(String)).toEqual(Array.from({ length: 21 }, (_, i) => `b${i + 11}`));
    expect(String(bound.resolve(first("small")))).toBe("small");
  });

  it("stay as long as they are used, when the caller binds many others", () => {
    const bound = new BoundStatements();
    for (const name of ["used", "unused"]) {
      bound.set("a", first(name), values);
    }
    for (let i = 0; i < 12_000; i++) {
      bound.set("a", first(`a${i}`), values);
      expect(bound.resolve(first("used"))).toBe(values);
    }
    expect(String(bound.resolve(first("unused")))).toBe("unused");
  });

  it("are forgotten with the statement, and then take no room", () => {
    const bound = new BoundStatements();
    bound.set("a", first("kept"), values);
    for (let i = 0; i < 32; i++) {
      bound.set("a", first("large"), large);
      bound.set("a", first("closed"), large);
      bound.delete(first("closed"));
    }
    expect(bound.resolve(first("kept"))).toBe(values);
    expect(bound.resolve(first("large"))).toBe(large);
    expect(String(bound.resolve(first("closed")))).toBe("closed");
  });
});
