import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import {
  blankCommentsAndTexts,
  checkFile,
  checkFolders,
  checkImports,
  edgesOf,
  unusedEdges,
} from "../../scripts/check-imports.js";

const script = fileURLToPath(new URL("../../scripts/check-imports.js", import.meta.url));

describe("directions", () => {
  test.each([
    ["bin/a.ts", `import { x } from "../servers/x.js";`],
    ["servers/a.ts", `import { x } from "../routes/x.js";`],
    ["servers/a.ts", `import { x } from "telemetry-service-client";`],
    ["workers/a.ts", `import { x } from "../routes/x.js";`],
    ["routes/deep/a.ts", `import { x } from "../../auth/x.js";`],
    ["query/a.ts", `import { x } from "../auth/x.js";`],
    ["lake/a.ts", `import { x } from "../engine/x.js";`],
    ["engine/a.ts", `new Worker(new URL("./native/x.js", import.meta.url));`],
    ["admin/a.ts", `import { x } from "../auth/x.js";`],
    ["workers/a.ts", `import type { X } from "../auth/x.js";`],
    ["workers/a.ts", `import { type X, type Y } from "../auth/x.js";`],
    ["lake/a.ts", `import { x } from "../db/x.js";`],
    ["runtime/config/a.ts", `import { x } from "../errors.js";`],
    ["wire/a.ts", `import x from "node:fs"; import y from "pino";`],
    ["wire/a.ts", `// import { x } from "../lake/x.js"\n/* import "../lake/x.js" */`],
    ["wire/a.ts", "const text = `import { x } from '../lake/x.js'`;"],
    ["wire/a.ts", `const text = 'import { x } from "../lake/x.js"';`],
    ["wire/a.ts", `const quote = /["']/; const half = a / b; // "\n`],
  ])("%s may say %s", (file, source) => {
    expect(checkFile(file, source)).toEqual([]);
  });

  test.each([
    ["runtime/a.ts", `import { x } from "../wire/x.js";`, "src/runtime may not import from src/wire"],
    ["wire/a.ts", `import type { X } from "../lake/x.js";`, "src/wire may not import from src/lake"],
    ["wire/a.ts", `export * from "../lake/x.js";`, "src/wire may not import from src/lake"],
    ["engine/a.ts", `import { x } from "../query/x.js";`, "src/engine may not import from src/query"],
    ["wire/a.ts", `export { x } from '../lake/x.js';`, "src/wire may not import from src/lake"],
    ["wire/a.ts", `import "../lake/x.js";`, "src/wire may not import from src/lake"],
    ["wire/a.ts", `const x = await import("../lake/x.js");`, "src/wire may not import from src/lake"],
    ["wire/a.ts", "const x = `${await import('../lake/x.js')}`;", "src/wire may not import from src/lake"],
    ["wire/a.ts", `import {\n  x,\n} from "../lake/x.js";`, "src/wire may not import from src/lake"],
    ["routes/a.ts", `import { x } from "../workers/x.js";`, "src/routes may not import from src/workers"],
    ["lake/a.ts", `import { x } from "../auth/x.js";`, "src/lake may not import from src/auth"],
    ["auth/a.ts", `import { x } from "../admin/x.js";`, "src/auth may not import from src/admin"],
    ["auth/keys/a.ts", `import type { X } from "../../admin/x.js";`, "src/auth may not import from src/admin"],
    ["ingest/a.ts", `import { x } from "../db/x.js";`, "src/ingest may not import from src/db"],
    ["lake/a.ts", `import { x } from "../x.js";`, "src/lake may not import from src/x.js"],
    [
      "workers/a.ts",
      `import { X } from "../auth/x.js";`,
      "src/workers may import only types from src/auth (import type)",
    ],
    [
      "workers/a.ts",
      `import { type X, y } from "../auth/x.js";`,
      "src/workers may import only types from src/auth (import type)",
    ],
  ])("%s may not say %s", (file, source, message) => {
    expect(checkFile(file, source).map((offence) => offence.message)).toEqual([message]);
  });
});

test("an edge of ARCHITECTURE.md's table points down, and says what it is of", () => {
  const table = (ofB: string): string =>
    `| Folder | What | May import |\n| \`src/a\` | x | c (types), all else below |\n| \`src/b\` | y | ${ofB}   |\n| \`src/c\`   | z | nothing |`;
  expect(Object.fromEntries(edgesOf(table("c")))).toEqual({
    a: { values: ["b"], types: ["c"] },
    b: { values: ["c"], types: [] },
    c: { values: [], types: [] },
  });
  expect(() => edgesOf(table("c, a"))).toThrow("lets src/b import from a, which is no folder below it");
});

describe("the house as it is", () => {
  const sources = fileURLToPath(new URL("../../../src", import.meta.url));

  test("keeps every rule", () => {
    expect(checkImports(sources)).toEqual([]);
  });

  test("uses every edge that the table allows", () => {
    expect(unusedEdges(sources)).toEqual([]);
  });
});

describe("folders", () => {
  const files = (folder: string, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${folder}/${index}.ts`);

  test("hold up to 16 files, those of folders below not counted", () => {
    expect(checkFolders([...files("wire", 16), ...files("wire/flight", 16)])).toEqual([]);
  });

  test("hold no more", () => {
    expect(checkFolders([...files("wire", 1), ...files("wire/flight", 17)])).toEqual([
      {
        file: "wire/flight",
        line: 1,
        message: "holds 17 files; part it, a folder holds 16 at most",
      },
    ]);
  });
});

describe("other rules", () => {
  test.each([
    "const x = process.env.HOME;",
    "const x = process?.env;",
    `const x = process["env"];`,
    "const { argv, env } = process;",
    `import { env } from "node:process";`,
  ])("only src/runtime/config may say %s", (source) => {
    expect(checkFile("runtime/a.ts", source)).toMatchObject([
      { line: 1, message: "only src/runtime/config reads process.env" },
    ]);
    expect(checkFile("runtime/config/a.ts", source)).toEqual([]);
  });

  test.each([
    "process.exit(1);",
    "o.exit = process.exit;",
    `process["exit"](1);`,
    "const { exit } = process;",
    `import { exit } from "process";`,
  ])("only src/bin may say %s", (source) => {
    expect(checkFile("servers/a.ts", source)).toMatchObject([{ message: "only src/bin ends the process" }]);
    expect(checkFile("bin/a.ts", source)).toEqual([]);
  });

  test("setting the exit code is nobody's offence", () => {
    expect(checkFile("routes/a.ts", "process.exitCode = 1;")).toEqual([]);
  });

  test("only src/workers names thread entry files; other files may be named anywhere", () => {
    const entry = `const entry = new URL("./encode-thread.js", import.meta.url);`;
    expect(checkFile("workers/a.ts", entry)).toEqual([]);
    expect(checkFile("servers/a.ts", entry)).toHaveLength(1);
    expect(checkFile("db/a.ts", `new URL("../../migrations/", import.meta.url)`)).toEqual([]);
  });

  test("barrel files and files outside of the folders are refused", () => {
    expect(checkFile("wire/index.ts", "")).toHaveLength(1);
    expect(checkFile("main.ts", "")).toHaveLength(1);
    expect(checkFile("misc/a.ts", "")).toHaveLength(1);
  });
});

test("blanking keeps length and lines, and the code within templates", () => {
  const source = "a(`x ${b({ c: `y ${d} 'z'` })} w`); // e\nf = g / h; /* i\nj */ k('it\\'s');\n";
  const code = blankCommentsAndTexts(source);
  expect(code).toHaveLength(source.length);
  expect(code.split("\n")).toHaveLength(source.split("\n").length);
  expect(code.replaceAll(/\s+/g, " ")).toBe("a(` ${b({ c: ` ${d} ` })} `); f = g / h; k(' '); ");
});

describe("the command", () => {
  let directory = "";
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "check-imports-"));
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  function run(): { readonly status: number | null; readonly output: string } {
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, directory], {
      encoding: "utf8",
    });
    return { status, output: stdout + stderr };
  }

  function write(path: string, text: string): void {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }

  test("prints file and line of every offence and exits with 1", () => {
    write("src/wire/good.ts", `import { x } from "../runtime/x.js";\n`);
    write("src/wire/bad.ts", `// first line\nimport { x } from "../lake/x.js";\n\nprocess.exit(1);\n`);
    const { status, output } = run();
    expect(status).toBe(1);
    expect(output).toContain("src/wire/bad.ts:2: src/wire may not import from src/lake\n");
    expect(output).toContain("src/wire/bad.ts:4: only src/bin ends the process\n");
    expect(output.trim().split("\n")).toHaveLength(2);
  });

  test("edges that no file uses are reported, and types do not count as values", () => {
    write("auth/a.ts", `import type { X } from "../db/x.js";\nimport { y } from "../wire/y.js";\n`);
    const unused = unusedEdges(directory);
    expect(unused).toContain("src/auth imports no value from src/db");
    expect(unused).toContain("src/workers imports no type from src/auth");
    expect(unused).not.toContain("src/auth imports no value from src/wire");
  });

  test("says nothing and exits with 0 when all is well", () => {
    write("src/wire/good.ts", `import { x } from "../runtime/x.js";\n`);
    write("client/package.json", "{}");
    write("client/src/deep/good.ts", `import { x } from "../x.js";\nimport y from "arrow";\n`);
    expect(run()).toEqual({ status: 0, output: "" });
  });

  test("packages reach each other by name only, and what they installed or built is not theirs", () => {
    write("src/wire/bad.ts", `import { x } from "../../client/src/x.js";\n`);
    write("client/package.json", "{}");
    write("client/src/bad.tsx", `\nimport type { X } from "../../src/wire/x.js";\n`);
    write("client/node_modules/a/a.ts", `import { x } from "../../../src/x.js";\n`);
    write("notes/a.ts", `import { x } from "../src/x.js";\n`);
    const { status, output } = run();
    expect(status).toBe(1);
    expect(output).toContain("src/wire/bad.ts:1: src/wire may not import from src/..\n");
    expect(output).toContain("client/src/bad.tsx:2: client may not reach out of its package by a path\n");
    expect(output.trim().split("\n")).toHaveLength(2);
  });
});
