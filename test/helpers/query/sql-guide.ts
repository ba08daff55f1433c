import { readFile } from "node:fs/promises";

/** What docs/ says about SQL: questions, views, and all else. */
export async function readSqlGuide(): Promise<string> {
  const names = ["questions.md", "views.md", "sql.md"];
  const read = (name: string): Promise<string> =>
    readFile(new URL(`../../../../docs/${name}`, import.meta.url), "utf8");
  return (await Promise.all(names.map(read))).join("\n");
}
