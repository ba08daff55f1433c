import { expect, it } from "vitest";

import { serviceOfPath, servicePath } from "./links.js";

it.each([".", "..", "", "~", "~.", "a/b", "a b", "%2E", "shop", "...", "?q#h"])(
  "leads to the page of a service called %j",
  (name) => {
    const { pathname, search, hash } = new URL(servicePath(name), "http://localhost");
    expect([search, hash]).toEqual(["", ""]);
    const [, first, part, ...more] = pathname.split("/");
    expect([first, more]).toEqual(["services", []]);
    expect(part).not.toBe("");
    expect(serviceOfPath(decodeURIComponent(part ?? ""))).toBe(name);
  },
);
