/** `pnpm bench NAME [options]`: one name per bench; each prints its figures and can save them as JSON. */
type BenchFunction = (argv: readonly string[]) => Promise<unknown>;

/** Loaded when it is named: a bench pulls in only what it measures. */
const benches: Record<string, () => Promise<BenchFunction>> = {
  auth: async () => (await import("./auth.js")).benchAuth,
  decode: async () => (await import("./decode.js")).benchDecodeCommand,
  hurt: async () => (await import("./hurt.js")).benchHurt,
  ingest: async () => (await import("./ingest.js")).benchIngest,
  lake: async () => (await import("./lake.js")).benchLake,
  merge: async () => (await import("./merge.js")).benchMerge,
  micro: async () => (await import("./micro.js")).benchMicro,
  "object-cache": async () => (await import("./object-cache.js")).benchObjectCache,
  parquet: async () => (await import("./parquet.js")).benchParquet,
  query: async () => (await import("./query.js")).benchQuery,
  questions: async () => (await import("./questions.js")).benchQuestions,
  soak: async () => (await import("./soak.js")).benchSoak,
  "web-app": async () => (await import("./web-app.js")).benchWebApp,
  web: async () => (await import("./web.js")).benchWeb,
};

const [name, ...rest] = process.argv.slice(2).filter((argument) => argument !== "--");
const load = name === undefined ? undefined : benches[name];
if (load === undefined) {
  console.error(`usage: pnpm bench ${Object.keys(benches).join("|")} [options]`);
  process.exitCode = 2;
} else {
  const bench = await load();
  await bench(rest);
}
