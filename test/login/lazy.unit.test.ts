import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const compiled = fileURLToPath(new URL("../../src/", import.meta.url));

/** Files and packages that a compiled file imports before it does anything, and what those import. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  const text = readFileSync(file, "utf8");
  for (const [, specifier = ""] of text.matchAll(/^(?:import|export)\b[^;]*?from\s+"([^"]+)"|^import "([^"]+)"/gm)) {
    const target = specifier.startsWith(".") ? path.resolve(path.dirname(file), specifier) : specifier;
    if (!seen.has(target)) {
      seen.add(target);
      if (existsSync(target)) {
        loadedBy(target, seen);
      }
    }
  }
  return seen;
}

it("is no part of any start: neither the identity provider nor its library", () => {
  const loaded = [
    "bin/telemetry-monolith",
    "servers/ingestion",
    "servers/analytics",
    "servers/web",
    "servers/maintenance",
  ]
    .map((file) => path.join(compiled, `${file}.js`))
    .flatMap((file) => [file, ...loadedBy(file)]);
  expect(loaded).toContain(path.join(compiled, "servers/web.js"));
  expect(loaded).toContain("pino");
  expect(loaded).not.toContain(path.join(compiled, "login/identity-provider.js"));
  expect(loaded).not.toContain("oidc-provider");
  // Development mode loads the former, and a login the latter.
  expect([...loadedBy(path.join(compiled, "login/identity-provider.js"))]).not.toContain("oidc-provider");
  expect([...loadedBy(path.join(compiled, "login/provider.js"))]).toContain("oidc-provider");
});
