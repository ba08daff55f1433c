import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { inflate, InflatedSizeError } from "../../src/ingest/body/inflate.js";
import { MalformedError } from "../../src/wire/protobuf-reader.js";
import { sampleText } from "../helpers/otlp/otlp-build.js";

type Coding = "gzip" | "deflate" | "zstd";

/** Inflates a body that lies, as in the service, in a larger buffer. */
function inflated(body: Uint8Array, coding: Coding, limit = 1 << 24): Buffer {
  const padded = new Uint8Array(body.length + 64).fill(0xaa);
  padded.set(body);
  return Buffer.concat(inflate(padded.subarray(0, body.length), coding, limit));
}

const text = sampleText(60);

/** Made by the reference implementation: level 3 fast without checksum, level 19, level 3. */
const zstdFast = Buffer.from(
  "KLUv/QBIJQ4AFBVHRVQgL2FwaS9pdGVtcy8wIHRvb2sgMCBtcyBmb3IgdXNlci0wCkdFVCAvYXBpL2l0ZW1zLzk0MCB0b29rIDQ2NjkxCkc4ODMzMzUyCkcyNiAwMDEzCkc3NjkzNjY3NApHMTIgMzMzNQpHNjU1Mjk5OTYKRzU5ODY2NTcKRzQxIDMzMTgKRzQ4NDE5OTc5CkcyNyA2NjMxMAozNzAgdG9vayAxMzIzMTM5OTUyNTY2NjExOTkzMjcxCkc0MiA0OTk2ODQ2NjIzCkcyNDMyODQKRzk2ODM5OTQ1Ckc5MTEzNjYwNgpHODU0MzMyNjc5Nzk5Mjc0MDI2NTg2ODMyMzI0NjI2OTkwNTY5MTY1MTUxMzIyMApHNDU1OTg4Mzk4NjU0MgpHNDEgMzIwMwpHMjg0NDk4OTIyNzQ2NTUxNzA0MzIxMTEzOTg3MzY1MzgKR0VUXKhhEIG5e+x3oDOTNhEkPEaEmZTJ8usBLnJIYZYtzqX8ZKSNzQgBCwRp/7IzM+8vThZZUWxfSpES67rbMKIt13Itl5zX+4+BldECQq4P6q2enEB1Ftg6INJZaUB2DfZiWNyYRFYtXUNWmEQ6U3DerwI=",
  "base64",
);
const zstdBest = Buffer.from(
  "KLUv/QRoRQ0ABl9BF5Cr0AEoJJR4CGcaMU1SJilTSrmTXVecRwA1ADUAHnLzdx076moTT/+kpNZOaOz6+D9nPG05Ibs3dWOYnLZVuy1ygBGwkFg0HBYUBodFwmEcEBQKhsNALBISDAeIA4UCxIFAYCCsDNqMhcjXZbCTyrjeqs8I2XHj8e4Zv2lhW36NhxR/0onMVqY87G4f+etLscXSHv+UEftvdlJcO5nFrW/UO0NZhWuJ5S7rYkrXlpB4yKxOn3Uyvngbtb4y0cphbUxWTZ3vv9Z/x/VQvd0W9zfTUXKjmvdGp8kZbYuvO6Sll14aFRmZWLYZupTHo0MPMctCf2l0PlG8Tpm+sY+V5IuYxKIzgJ6oEZAcru//BpAZVdoRiJ1wKBBm4tfdAPCLTh/na/79+/GdYShcQzIUGKSdXT7/cRhyO4aHe/d+XMPnVo6hcA3NUGCQdlb5/H379+PakImZOS7wfHDGKipDwcewH50w0ugUpTELXmC2Ay8tOLf+oM1VWlIHGRKegTibSnXeDen4ydqTMglzr5RTe8vDp8jPHPiknv2pYLhWu1pCODGtCrjxqL8=",
  "base64",
);
const zstdRuns = Buffer.from("KLUv/QRYVAAAEGFiAQD7/+UOC0wAAAhhAQD8/zkQAk0AAAhhAQDcEx0IAaZbIjg=", "base64");

const bodies: Record<Coding, { readonly body: Buffer; readonly text: Buffer }> = {
  gzip: { body: gzipSync(text), text },
  deflate: { body: deflateSync(text), text },
  zstd: { body: zstdBest, text: sampleText(400).subarray(0, 3000) },
};

describe.each(["gzip", "deflate", "zstd"] as const)("%s", (coding) => {
  const { body, text: content } = bodies[coding];

  it("inflates what was deflated", () => {
    expect(inflated(body, coding).equals(content)).toBe(true);
  });

  it("stops at the limit", () => {
    expect(inflated(body, coding, content.length).equals(content)).toBe(true);
    expect(() => inflated(body, coding, content.length - 1)).toThrow(InflatedSizeError);
    expect(() => inflated(body, coding, 1)).toThrow(InflatedSizeError);
  });

  it("refuses a body that is cut anywhere", () => {
    for (let length = 0; length < body.length; length++) {
      expect(() => inflated(body.subarray(0, length), coding)).toThrow(MalformedError);
    }
  });

  it("refuses anything behind the body", () => {
    for (const tail of [[0], [0, 0, 0, 0, 0, 0, 0, 0], [0x1f], [0x1f, 0x8b], Buffer.from("garbage behind")]) {
      expect(() => inflated(Buffer.concat([body, Uint8Array.from(tail)]), coding)).toThrow(MalformedError);
    }
  });

  it("only ever gives the content or a declared error for a body with flipped bits", () => {
    for (let bit = 0; bit < body.length * 8; bit += 3) {
      const flipped = Buffer.from(body);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      let result: unknown;
      try {
        result = inflated(flipped, coding, 1 << 20);
      } catch (error) {
        result = error;
      }
      const isDeclared = result instanceof MalformedError || result instanceof InflatedSizeError;
      expect(isDeclared || (Buffer.isBuffer(result) && result.equals(content))).toBe(true);
    }
  });
});

describe("gzip", () => {
  it("takes several members, and headers with names, comments and extra fields", () => {
    const member = gzipSync(text);
    const withName = Buffer.concat([
      member.subarray(0, 3),
      Uint8Array.of(0x1e),
      member.subarray(4, 10),
      Uint8Array.of(2, 0, 9, 9),
      Buffer.from("name\0comment\0"),
      Uint8Array.of(0, 0),
      member.subarray(10),
    ]);
    const twice = Buffer.concat([text, text]);
    expect(inflated(Buffer.concat([member, withName]), "gzip").equals(twice)).toBe(true);
    expect(() => inflated(Buffer.concat([member, withName]), "gzip", twice.length - 1)).toThrow(InflatedSizeError);
  });

  it("refuses a bomb after inflating no more than the limit", () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    expect(() => inflated(bomb, "gzip", 1024 * 1024)).toThrow(InflatedSizeError);
  });

  it("does not believe the size that a body claims", () => {
    const lying = gzipSync(text);
    lying.writeUInt32LE(0xfffffff0, lying.length - 4);
    expect(() => inflated(lying, "gzip")).toThrow(MalformedError);
  });

  it("takes memory for the size at the end of a body once, not for each member", () => {
    const zeros = Buffer.alloc(8 << 20);
    const body = Buffer.concat([...Array<Buffer>(20).fill(gzipSync("x")), gzipSync(text), gzipSync(zeros)]);
    const parts = inflate(body, "gzip", 1 << 24);
    expect(Buffer.concat(parts).equals(Buffer.concat([Buffer.alloc(20, "x"), text, zeros]))).toBe(true);
    for (const part of parts.slice(1, 20)) {
      // Small ones may share a pool of Node.js's.
      expect(part.buffer.byteLength).toBeLessThanOrEqual(Math.max(Buffer.poolSize, 1 << 14));
    }
  });

  it("refuses a stream of countless empty members", () => {
    const empty = gzipSync(Buffer.alloc(0));
    expect(() => inflated(Buffer.concat(Array(5000).fill(empty)), "gzip")).toThrow(MalformedError);
  });
});

describe("deflate", () => {
  it("takes raw deflate too", () => {
    expect(inflated(deflateRawSync(text), "deflate").equals(text)).toBe(true);
  });
});

describe("zstd", () => {
  it("takes frames of the reference implementation, with and without checksum, one or more", () => {
    const fast = sampleText(400).subarray(0, 1500);
    expect(inflated(zstdFast, "zstd").equals(fast)).toBe(true);
    expect(inflated(zstdRuns, "zstd").equals(Buffer.alloc(300_000, "ab"))).toBe(true);
    const skippable = Uint8Array.of(0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3);
    expect(inflated(Buffer.concat([zstdFast, skippable, zstdFast]), "zstd")).toHaveLength(3000);
  });

  it("refuses a frame whose window or size is beyond the limit without taking memory for it", () => {
    const hugeSize = Uint8Array.of(
      0x28,
      0xb5,
      0x2f,
      0xfd,
      0xe0,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0xff,
      0x0f,
      1,
      0,
      0,
    );
    expect(() => inflated(hugeSize, "zstd")).toThrow(InflatedSizeError);
    const hugeWindow = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0);
    expect(inflated(hugeWindow, "zstd")).toHaveLength(0);
  });

  it("stops a bomb of run-length blocks at the limit", () => {
    const block = Uint8Array.of(0x02, 0x00, 0x10, 0x61);
    const bomb = Buffer.concat([Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58), ...Array(10_000).fill(block)]);
    expect(() => inflated(bomb, "zstd", 1 << 20)).toThrow(InflatedSizeError);
  });

  it("refuses a frame that needs a dictionary", () => {
    expect(() => inflated(Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 7, 1, 0, 0), "zstd")).toThrow(
      /dictionary/u,
    );
  });
});
