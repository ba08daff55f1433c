/** Names of the variables of a screen, by one rule for the page that saves it and the command that sends it. */

/** What is wrong with a name, or null. */
export function nameProblem(name: string): string | null {
  if (name === "interval") {
    return "$interval is the seconds of a bucket";
  }
  return /^[A-Za-z_]\w{0,40}$/.test(name) ? null : "letters, digits and _, the first no digit, at most 41";
}

/** Which of the names keeps `$name` from meaning one variable, and why, in a sentence without its end; null: none does. */
export function variableProblem(names: readonly string[]): string | null {
  const taken = new Set<string>();
  for (const name of names) {
    const problem = taken.has(name) ? "another variable has that name" : nameProblem(name);
    if (problem !== null) {
      return `a variable cannot be called “${name}”: ${problem}`;
    }
    taken.add(name);
  }
  return null;
}
