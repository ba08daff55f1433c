/** What documents and messages refer to exists: a file, and a heading in it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import { expect, it } from "vitest";

interface Reference {
  readonly file: string;
  /** Against the root of the repository. */
  readonly to: string;
  readonly heading: string | undefined;
}

const documents = [".", "docs", "client", "web"].flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .map((name) => path.join(folder, name)),
);

const sources = ["src", "client/src", "web/src", "bench", "deploy"].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:tsx?|ya?ml|sh|sql)$/u.test(name) && !name.includes("node_modules"))
    .map((name) => path.join(folder, name)),
);

/** A document without code. */
function prose(file: string): string {
  return readFileSync(file, "utf8")
    .replaceAll(/^```[\s\S]*?^```$/gmu, "")
    .replaceAll(/`[^`\n]*`/gu, (code) => code.replaceAll(/[[\]()#]/gu, ""));
}

/** What GitHub makes of the headings of a document. */
function anchors(file: string): string[] {
  return [...prose(file).matchAll(/^#+ (.*)$/gmu)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** Those that lead nowhere. */
function dead(references: readonly Reference[]): string[] {
  return references
    .filter(({ to, heading }) => !existsSync(to) || (heading !== undefined && !anchors(to).includes(heading)))
    .map(({ file, to, heading = "" }) => `${file}: ${to}#${heading}`);
}

it("links of documents lead somewhere", () => {
  const links = documents.flatMap((file) =>
    [...prose(file).matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/gu)].map(([, to = "", heading]): Reference => ({
      file,
      to: to === "" ? file : path.join(path.dirname(file), to),
      heading,
    })),
  );
  expect(links.length).toBeGreaterThan(100);
  expect(dead(links)).toEqual([]);
});

it("messages and comments name documents that exist", () => {
  const named = sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/\b(docs\/[\w-]+\.md)(?:#([\w-]+))?/gu)].map(
      ([, to = "", heading]): Reference => ({ file, to, heading }),
    ),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(dead(named)).toEqual([]);
});
