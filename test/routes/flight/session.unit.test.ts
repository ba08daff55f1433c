/** Session options of Flight SQL, which the server keeps in a cookie. */
import { Metadata } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";

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
