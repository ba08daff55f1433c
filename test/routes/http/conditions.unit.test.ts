/** Ranges and conditions of requests for objects, and the keys that they name. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { parseRange, select } from "../../../src/routes/http/conditions.js";
import { isAllowed, keyOfPath } from "../../../src/routes/object-cache/keys.js";
import { ServiceError } from "../../../src/runtime/errors.js";

const plain = { range: "", ifRange: "", ifMatch: "", ifNoneMatch: "" };

describe("a range", () => {
  it.each([
    ["bytes=0-0", { start: 0, end: 1 }],
    ["bytes=0-99", { start: 0, end: 10 }],
    ["bytes=3-5", { start: 3, end: 6 }],
    ["bytes=9-", { start: 9, end: 10 }],
    ["bytes=-3", { start: 7, end: 10 }],
    ["bytes=-30", { start: 0, end: 10 }],
    ["BYTES = 3-5 ", { start: 3, end: 6 }],
    ["bytes=99999999999999999999-", "unsatisfiable"],
    ["bytes=10-", "unsatisfiable"],
    ["bytes=10-12", "unsatisfiable"],
    ["bytes=-0", "unsatisfiable"],
    ["bytes=5-3", null],
    ["bytes=-", null],
    ["bytes=", null],
    ["bytes=0-1,3-4", null],
    ["bytes=a-b", null],
    ["bytes=0x0-1", null],
    ["bytes=--1", null],
    ["items=0-1", null],
    ["0-1", null],
  ])("%s of ten bytes", (field, expected) => {
    expect(parseRange(field, 10)).toEqual(expected);
  });

  it("lies within its object, whatever is asked for", () => {
    const number = fc.oneof(fc.nat(), fc.bigInt({ min: 0n, max: 10n ** 30n }));
    const field = fc.oneof(
      fc.string().map((text) => `bytes=${text}`),
      fc.tuple(fc.option(number), fc.option(number)).map(([a, b]) => `bytes=${a ?? ""}-${b ?? ""}`),
    );
    fc.assert(
      fc.property(field, fc.nat(), (text, bytes) => {
        const range = parseRange(text, bytes);
        const isWithin =
          typeof range !== "object" ||
          range === null ||
          (range.start >= 0 && range.start < range.end && range.end <= bytes);
        expect(isWithin).toBe(true);
      }),
    );
  });

  it("is that of a plain reading, when both ends are given", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.nat(1000), fc.nat(1000), (first, length, bytes) => {
        const wanted = Array.from({ length: bytes }, (_, i) => i).slice(first, first + length + 1);
        const range = parseRange(`bytes=${first}-${first + length}`, bytes);
        expect(range).toEqual(
          wanted.length === 0 ? "unsatisfiable" : { start: wanted[0], end: (wanted.at(-1) ?? 0) + 1 },
        );
      }),
    );
  });

  it("of an object without bytes cannot be satisfied", () => {
    expect(select({ ...plain, range: "bytes=0-" }, '"a"', 0, true)).toEqual({ status: 416 });
    expect(select({ ...plain, range: "bytes=-5" }, '"a"', 0, true)).toEqual({ status: 416 });
    expect(select(plain, '"a"', 0, true)).toEqual({ status: 200, start: 0, end: 0 });
  });
});

describe("a condition", () => {
  it.each([
    [{ ifNoneMatch: '"a"' }, { status: 304 }],
    [{ ifNoneMatch: 'W/"a"' }, { status: 304 }],
    [{ ifNoneMatch: '"b", W/"a"' }, { status: 304 }],
    [{ ifNoneMatch: "*" }, { status: 304 }],
    [{ ifNoneMatch: '"b"' }, { status: 200, start: 0, end: 10 }],
    [{ ifMatch: '"b"' }, { status: 412 }],
    [{ ifMatch: 'W/"a"' }, { status: 412 }],
    [{ ifMatch: '"b", "a"' }, { status: 200, start: 0, end: 10 }],
    [{ ifMatch: "*" }, { status: 200, start: 0, end: 10 }],
    [
      { range: "bytes=1-2", ifRange: '"a"' },
      { status: 206, start: 1, end: 3 },
    ],
    [
      { range: "bytes=1-2", ifRange: '"b"' },
      { status: 200, start: 0, end: 10 },
    ],
    [
      { range: "bytes=1-2", ifRange: 'W/"a"' },
      { status: 200, start: 0, end: 10 },
    ],
    [
      { range: "bytes=99-", ifRange: '"b"' },
      { status: 200, start: 0, end: 10 },
    ],
    [{ range: "bytes=99-", ifNoneMatch: '"a"' }, { status: 304 }],
  ])("%j", (asked, expected) => {
    expect(select({ ...plain, ...asked }, '"a"', 10, true)).toEqual(expected);
  });

  it("of HEAD knows no range", () => {
    expect(select({ ...plain, range: "bytes=1-2" }, '"a"', 10, false)).toEqual({ status: 200, start: 0, end: 10 });
  });
});

describe("a key", () => {
  it.each([
    "/obj/",
    "/obj//x",
    "/obj/x/",
    "/obj/../x",
    "/obj/a/../x",
    "/obj/a/./x",
    "/obj/%2e%2e/x",
    "/obj/%2E%2E%2Fx",
    "/obj/a/..%2fx",
    "/obj/a\\..\\x",
    "/obj/%5c..%5cx",
    "/obj/a%00b",
    "/obj/a%0ab",
    "/obj/%",
    "/obj/%zz",
    "/obj/%c0%ae%c0%ae/x",
    "/obj/%252e%252e/x",
    "/obj/.probe/ready",
    "/obj/a/.x.0011.tmp",
    "/obj/a b",
    "/obj/a%20b",
    "/obj/ä",
    "/obj/a?b",
    "/obj//etc/passwd",
    `/obj/${"a/".repeat(512)}a`,
    `/obj/t/${"a".repeat(256)}/x`,
  ])("is not in %s", (path) => {
    expect(() => keyOfPath(path)).toThrow(expect.objectContaining({ code: "BAD_REQUEST" }) as Error);
  });

  it("has characters of a path, encoded or not", () => {
    expect(keyOfPath("/obj/t/audience=a/2026-11-22/x.l0.parquet")).toBe("t/audience=a/2026-11-22/x.l0.parquet");
    expect(keyOfPath("/obj/t/audience%3Da%2fx")).toBe("t/audience=a/x");
    expect(keyOfPath(`/obj/t/${"a".repeat(255)}/x`)).toBe(`t/${"a".repeat(255)}/x`);
  });

  it("leads nowhere but below the store, whatever was sent", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("a", ".", "/", "%2e", "%2f", "..", "%", "=", "\\", "%00"), { maxLength: 12 }),
        (parts) => {
          let key: string;
          try {
            key = keyOfPath(`/obj/${parts.join("")}`);
          } catch (error) {
            if (error instanceof ServiceError) {
              return;
            }
            throw error;
          }
          expect(key.split("/").every((segment) => /^[^./\\%\0][^/\\%\0]*$/u.test(segment))).toBe(true);
        },
      ),
    );
  });

  it("is handed out from directories that are allowed, and none that only begin alike", () => {
    const prefixes = ["log_entries", "spans/audience=a"];
    const all = [
      "log_entries/x",
      "log_entries2/x",
      "spans/audience=a/x",
      "spans/audience=ab/x",
      "spans/x",
      "log_entries",
    ];
    expect(all.filter((key) => isAllowed(key, prefixes))).toEqual([
      "log_entries/x",
      "spans/audience=a/x",
      "log_entries",
    ]);
    expect(all.filter((key) => isAllowed(key, null))).toEqual(all);
  });
});
