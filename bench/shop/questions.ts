/** The everyday questions, as docs/questions.md has them. */
import { readFile } from "node:fs/promises";

/** One of them. */
export interface Question {
  /** From 1. */
  readonly number: number;
  /** In words. */
  readonly words: string;
  readonly sql: string;
}

/** Reads the questions out of the text of docs/questions.md: a line `**1. In words?**` and the SQL that follows. */
export function parseQuestions(text: string): Question[] {
  const found = text.matchAll(/^\*\*(?<number>\d+)\. (?<words>[^*]+)\*\*[^\n]*\n\n```sql\n(?<sql>[^`]+)\n```$/gmu);
  return [...found].map(({ groups }) => ({
    number: Number(groups?.["number"]),
    words: groups?.["words"] ?? "",
    sql: groups?.["sql"] ?? "",
  }));
}

/** The questions of this repository. */
export async function readQuestions(): Promise<Question[]> {
  return parseQuestions(await readFile(new URL("../../../docs/questions.md", import.meta.url), "utf8"));
}

const seconds: Readonly<Record<string, number>> = { minute: 60, hour: 3600, day: 86_400 };

/** The question asked since 8 days ago: of the times in it, the furthest, and those that lie nearly as far back, are moved there. */
export function overEightDays(sql: string): string {
  const times = [...sql.matchAll(/ago\('(?<count>\d+) (?<unit>minute|hour|day)s?'\)/gu)].map((match) => ({
    text: match[0],
    seconds: Number(match.groups?.["count"]) * (seconds[match.groups?.["unit"] ?? ""] ?? 0),
  }));
  const furthest = Math.max(0, ...times.map((time) => time.seconds));
  return times
    .filter((time) => time.seconds >= furthest / 2)
    .reduce((text, time) => text.replaceAll(time.text, "ago('8 days')"), sql);
}
