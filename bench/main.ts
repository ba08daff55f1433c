/** `pnpm bench NAME [options]`: one name per bench; each prints its figures and can save them as JSON. */
import { benchIngest } from "./ingest.js";

const benches: Record<string, (argv: readonly string[]) => Promise<void>> = {
  ingest: benchIngest,
};

const [name, ...rest] = process.argv.slice(2).filter((argument) => argument !== "--");
const bench = name === undefined ? undefined : benches[name];
if (bench === undefined) {
  console.error(`usage: pnpm bench ${Object.keys(benches).join("|")} [options]`);
  process.exitCode = 2;
} else {
  await bench(rest);
}
