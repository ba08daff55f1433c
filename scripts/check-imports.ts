/**
 * Checks the house rules of ARCHITECTURE.md over src/: imports point down the list only; no folder holds more files
 * than can be scanned; only src/runtime/config reads `process.env`; only src/bin calls `process.exit`; only src/workers
 * names thread entry files, and src/engine those of its process; no barrel files. The other packages of the workspace
 * reach nothing but themselves by a path. Prints every offence as file:line and exits with 1.
 *
 * Usage: node dist/scripts/check-imports.js [directory of the workspace, default .]
 */

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, posix, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** One broken rule. */
interface Offence {
  /** Path below the checked directory, with forward slashes. */
  readonly file: string;
  /** Line number, from 1. */
  readonly line: number;
  readonly message: string;
}

/** Most TypeScript files of a folder, those in folders below it not counted. */
const maxFilesOfFolder = 16;

interface Edges {
  readonly values: readonly string[];
  readonly types: readonly string[];
}

/**
 * What each folder imports beside itself, as the table of ARCHITECTURE.md says, from top to bottom. An edge that nobody
 * uses leaves the table.
 */
const allowed = edgesOf(readFileSync(new URL("../../ARCHITECTURE.md", import.meta.url), "utf8"));

/** Reads rows like "| `src/a` | what it holds | b (types), c |". @throws Error when one names a folder that is not below */
export function edgesOf(document: string): ReadonlyMap<string, Edges> {
  const rows = [...document.matchAll(/^\| `src\/(\S+)` +\|.*\| (.+?) +\|$/gm)];
  return new Map(
    rows.map(([, folder = "", cell = ""], at) => {
      const below = rows.slice(at + 1).map(([, name = ""]) => name);
      const words = cell === "nothing" ? [] : cell.split(", ");
      const types = words.filter((word) => word.endsWith(" (types)")).map((word) => word.replace(" (types)", ""));
      const named = words.filter((word) => !word.endsWith(" (types)") && word !== "all else below");
      const wrong = [...types, ...named].find((name) => !below.includes(name));
      if (wrong !== undefined) {
        throw new Error(`ARCHITECTURE.md lets src/${folder} import from ${wrong}, which is no folder below it`);
      }
      const values = words.includes("all else below") ? below.filter((name) => !types.includes(name)) : named;
      return [folder, { values, types }];
    }),
  );
}

/** Checks every TypeScript file below `sourceDirectory`; an empty list means all is well. */
export function checkImports(sourceDirectory: string): Offence[] {
  const files = sourceFiles(sourceDirectory);
  return [
    ...checkFolders(files),
    ...files.flatMap((file) => checkFile(file, readFileSync(join(sourceDirectory, file), "utf8"))),
  ];
}

/** Checks the service and the other packages of a workspace; paths are below it. */
function checkWorkspace(directory: string): Offence[] {
  const service = checkImports(join(directory, "src")).map((offence) => ({
    ...offence,
    file: `src/${offence.file}`,
  }));
  return [...service, ...packagesOf(directory).flatMap((name) => checkPackage(directory, name))];
}

/** Folders of a workspace that are packages of their own. */
function packagesOf(directory: string): string[] {
  return readdirSync(directory).filter((name) => existsSync(join(directory, name, "package.json")));
}

/** What a package needs of another it names in its package.json; its folders are as those of the service. */
function checkPackage(directory: string, name: string): Offence[] {
  const files = sourceFiles(join(directory, name));
  const folders = checkFolders(files).map((offence) => ({ ...offence, file: `${name}/${offence.file}` }));
  const paths = files.flatMap((path) => {
    const file = `${name}/${path}`;
    const source = readFileSync(join(directory, file), "utf8");
    return importsOf(source, blankCommentsAndTexts(source))
      .filter(({ specifier }) => ![null, name].includes(targetFolder(file, specifier)))
      .map(({ index }) => ({
        file,
        line: lineOf(source, index),
        message: `${name} may not reach out of its package by a path`,
      }));
  });
  return [...folders, ...paths];
}

/** TypeScript files below a directory, by their paths below it, with forward slashes, sorted. */
function sourceFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.[cm]?tsx?$/.test(entry.name))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((path) => !/(?:^|\/)(?:node_modules|dist)\//.test(path))
    .sort();
}

function lineOf(source: string, index: number): number {
  return source.slice(0, index).split("\n").length;
}

/** Checks that every folder can be scanned; `files` are paths below the sources. */
export function checkFolders(files: readonly string[]): Offence[] {
  const counts = new Map<string, number>();
  for (const file of files) {
    const folder = posix.dirname(file);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > maxFilesOfFolder)
    .map(([folder, count]) => ({
      file: folder,
      line: 1,
      message: `holds ${count} files; part it, a folder holds ${maxFilesOfFolder} at most`,
    }));
}

/** Edges of the table that no file below `sourceDirectory` uses, as sentences. */
export function unusedEdges(sourceDirectory: string): string[] {
  const used = new Set<string>();
  for (const file of sourceFiles(sourceDirectory)) {
    const source = readFileSync(join(sourceDirectory, file), "utf8");
    for (const { specifier, typeOnly } of importsOf(source, blankCommentsAndTexts(source))) {
      const target = targetFolder(file, specifier);
      used.add(`${file.split("/")[0]} ${target} ${typeOnly ? "types" : "values"}`);
    }
  }
  return [...allowed].flatMap(([folder, { values, types }]) => [
    ...values
      .filter((target) => !used.has(`${folder} ${target} values`))
      .map((target) => `src/${folder} imports no value from src/${target}`),
    ...types
      .filter((target) => !used.has(`${folder} ${target} types`))
      .map((target) => `src/${folder} imports no type from src/${target}`),
  ]);
}

/** Checks one file: `file` is its path below the sources, with forward slashes. */
export function checkFile(file: string, source: string): Offence[] {
  const offences: Offence[] = [];
  const code = blankCommentsAndTexts(source);
  const report = (index: number, message: string): void => {
    offences.push({ file, line: lineOf(source, index), message });
  };
  const folder = file.split("/")[0] ?? "";
  const rules = file.includes("/") ? allowed.get(folder) : undefined;
  if (rules === undefined) {
    report(0, `is in none of the folders of ARCHITECTURE.md (${[...allowed.keys()].join(", ")})`);
    return offences;
  }
  if (/(^|\/)index\.[cm]?tsx?$/.test(file)) {
    report(0, "is a barrel file; import from the file that defines a thing");
  }
  for (const { index, specifier, typeOnly } of importsOf(source, code)) {
    const target = targetFolder(file, specifier);
    if (target === null || target === folder || rules.values.includes(target)) {
      continue;
    }
    if (rules.types.includes(target)) {
      if (!typeOnly) {
        report(index, `src/${folder} may import only types from src/${target} (import type)`);
      }
      continue;
    }
    report(index, `src/${folder} may not import from src/${target}`);
  }
  if (!file.startsWith("runtime/config/")) {
    reportAll(/\bprocess\s*(?:\?\.|\.)\s*env\b/g, "only src/runtime/config reads process.env");
    reportProcessMember("env", "only src/runtime/config reads process.env");
  }
  if (folder !== "bin") {
    reportAll(/\bprocess\s*(?:\?\.|\.)\s*(?:exit|reallyExit|abort)\b/g, "only src/bin ends the process");
    reportProcessMember("exit", "only src/bin ends the process");
  }
  if (folder !== "workers" && folder !== "engine") {
    for (const match of code.matchAll(/\bnew\s+URL\s*\(\s*["'`]/g)) {
      const start = match.index + match[0].length;
      if (/^[^"'`]*\.[cm]?[jt]s["'`]\s*,\s*import\.meta\.url/.test(source.slice(start))) {
        report(match.index, "only src/workers names thread entry files, and src/engine/supervisor.ts that of engines");
      }
    }
  }
  return offences.sort((a, b) => a.line - b.line);

  function reportAll(pattern: RegExp, message: string): void {
    for (const match of code.matchAll(pattern)) {
      report(match.index, message);
    }
  }

  /** The detours: `process["env"]`, `const { env } = process`, `import { env } from "node:process"`. */
  function reportProcessMember(member: string, message: string): void {
    for (const match of code.matchAll(/\bprocess\s*(?:\?\.)?\s*\[\s*["'`]/g)) {
      if (source.startsWith(member, match.index + match[0].length)) {
        report(match.index, message);
      }
    }
    const named = new RegExp(`\\{[^{}]*\\b${member}\\b[^{}]*\\}\\s*(?:=\\s*process\\b|from\\s*["'])`, "g");
    for (const match of code.matchAll(named)) {
      const end = match.index + match[0].length;
      if (match[0].endsWith("process") || /^(?:node:)?process["']/.test(source.slice(end))) {
        report(match.index, message);
      }
    }
  }
}

interface Import {
  /** Where the statement starts. */
  readonly index: number;
  readonly specifier: string;
  readonly typeOnly: boolean;
}

const importForms: readonly RegExp[] = [
  /\b(?:import|export)\s+(?<type>type\s+(?!from\b))?[\w$*{}\s,]*?\bfrom\s*(?<quote>["'])/g,
  /\bimport\s*(?<quote>["'])/g,
  /\b(?:import|require)\s*\(\s*(?<quote>["'`])/g,
];

/** Static and dynamic imports and re-exports. `code` has texts blanked, so only real ones are found. */
function importsOf(source: string, code: string): Import[] {
  const found: Import[] = [];
  for (const form of importForms) {
    for (const match of code.matchAll(form)) {
      const start = match.index + match[0].length;
      const end = source.indexOf(match.groups?.["quote"] ?? '"', start);
      const clause = match[0];
      found.push({
        index: match.index,
        specifier: source.slice(start, end),
        typeOnly: match.groups?.["type"] !== undefined || namesOnlyTypes(clause),
      });
    }
  }
  return found;
}

/** `import { type A, type B } from` imports no value. */
function namesOnlyTypes(clause: string): boolean {
  const names = /^(?:import|export)\s*\{([^}]*)\}/.exec(clause)?.[1];
  const parts = names?.split(",").filter((part) => part.trim() !== "") ?? [];
  return parts.length > 0 && parts.every((part) => /^\s*type\s/.test(part));
}

/** The folder of src that a relative import leads to; null for packages; `..` for what is outside of src. */
function targetFolder(file: string, specifier: string): string | null {
  if (!specifier.startsWith(".")) {
    return null;
  }
  const target = posix.normalize(posix.join(posix.dirname(file), specifier));
  return target.split("/")[0] ?? null;
}

/**
 * The same text, character for character, with comments and the contents of string literals blanked
 * and line breaks kept. Quotes stay, and so does the code inside `${...}` of a template.
 */
export function blankCommentsAndTexts(source: string): string {
  const out: string[] = [];
  /** What encloses the present position: braces of code, or the templates around a `${`. */
  const nesting: ("brace" | "template")[] = [];
  let i = 0;
  let lastCode = "";
  const blank = (end: number): void => {
    for (; i < end && i < source.length; i++) {
      out.push(source[i] === "\n" ? "\n" : " ");
    }
  };
  const copy = (): void => {
    const character = source[i] ?? "";
    out.push(character);
    lastCode = /\s/.test(character) ? lastCode : lastCode.slice(-12) + character;
    i++;
  };
  const endOf = (stop: RegExp): number => {
    stop.lastIndex = i;
    const match = stop.exec(source);
    return match === null ? source.length : match.index + match[0].length;
  };
  /** Copies nothing of a literal but its closing character. */
  const literal = (stop: RegExp): void => {
    copy();
    blank(endOf(stop) - 1);
    copy();
  };
  const template = (): void => {
    blank(endOf(/(?:\\[\s\S]|(?!`|\$\{)[\s\S])*/y));
    if (source[i] === "`") {
      copy();
    } else if (i < source.length) {
      copy();
      copy();
      nesting.push("template");
    }
  };
  while (i < source.length) {
    const character = source[i];
    if (source.startsWith("//", i)) {
      blank(endOf(/(?=\n)|$/g));
    } else if (source.startsWith("/*", i)) {
      blank(endOf(/\*\//g));
    } else if (character === '"') {
      literal(/(?:\\[\s\S]|[^"\\])*"/g);
    } else if (character === "'") {
      literal(/(?:\\[\s\S]|[^'\\])*'/g);
    } else if (character === "`") {
      copy();
      template();
    } else if (character === "/" && regexMayFollow(lastCode)) {
      literal(/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])*\//g);
    } else if (character === "{") {
      nesting.push("brace");
      copy();
    } else if (character === "}") {
      copy();
      if (nesting.pop() === "template") {
        template();
      }
    } else {
      copy();
    }
  }
  return out.join("");
}

/** Whether a slash after this code starts a regular expression and not a division. */
function regexMayFollow(code: string): boolean {
  return code === "" || /(?:[([{,;:=!&|?+\-*%<>~^}]|\b(?:return|typeof|case|in|of|void|await|yield))$/.test(code);
}

function main(): void {
  const directory = resolve(process.argv[2] ?? ".");
  const offences = checkWorkspace(directory);
  for (const { file, line, message } of offences) {
    console.error(`${join(relative(process.cwd(), directory), file)}:${line}: ${message}`);
  }
  process.exitCode = offences.length === 0 ? 0 : 1;
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main();
}
