/** What `pnpm bench` can run. */
import type { Figure } from "../figures.js";

/** Runs a bench with its options; prints tables of its own and hands back what is held against targets. */
type BenchFunction = (argv: readonly string[]) => Promise<readonly Figure[]>;

/** One bench. */
export interface Bench {
  readonly id: string;
  /** Table of the whole set that its figures are in. */
  readonly area: "ingestion" | "queries" | "storage" | "web" | "processes";
  readonly what: string;
  /** Settings of the short form; null: it is not part of the whole set, because it is too long to be shortened. */
  readonly short: readonly string[] | null;
  /** Processors that it takes to measure anything. */
  readonly cores: number;
  /** What it measures runs in its own process, so that is what `pnpm bench profile` looks at. */
  readonly isInProcess?: true;
  /** Loaded when it is named: a bench pulls in only what it measures. */
  readonly load: () => Promise<BenchFunction>;
}

/** In the order of the whole set: what people ask for first comes first. */
export const benches: readonly Bench[] = [
  {
    id: "ingest",
    area: "ingestion",
    cores: 2,
    what: "CPU a record, latency, small requests and overload of the ingestion server under load",
    short: "--seconds 2 --warm-up 3 --rounds 3 --records 1000,100,10 --overload-seconds 8".split(" "),
    load: async () => (await import("../ingest.js")).benchIngest,
  },
  {
    id: "query",
    area: "queries",
    cores: 2,
    what: "first batch, scans, streams, pruning and cancelling, beside bare DuckDB",
    short: "--rows 2000000 --partitions 100 --only first,scan,stream,cancel,prune".split(" "),
    load: async () => (await import("../query.js")).benchQuery,
  },
  {
    id: "start",
    area: "processes",
    cores: 2,
    what: "start and idle memory of the monolith on a warm data directory",
    short: "--rounds 3".split(" "),
    load: async () => (await import("../start.js")).benchStart,
  },
  {
    id: "auth",
    area: "ingestion",
    cores: 2,
    isInProcess: true,
    what: "checking cached keys, and a flood of unknown ones",
    short: "--seconds 10".split(" "),
    load: async () => (await import("../parts/auth.js")).benchAuth,
  },
  {
    id: "lake",
    area: "storage",
    cores: 2,
    what: "ingestion and merging together, while the lake grows",
    short: "--rounds 2 --seconds 5".split(" "),
    load: async () => (await import("../lake.js")).benchLake,
  },
  {
    id: "merge",
    area: "storage",
    cores: 1,
    isInProcess: true,
    what: "CPU a row of merging objects",
    short: "--objects 6 --requests 20".split(" "),
    load: async () => (await import("../merge.js")).benchMerge,
  },
  {
    id: "object-cache",
    area: "storage",
    cores: 2,
    what: "hits and streams of the object cache, beside a bare socket",
    short: "--rounds 3".split(" "),
    load: async () => (await import("../object-cache.js")).benchObjectCache,
  },
  {
    id: "web",
    area: "web",
    cores: 2,
    what: "minting, claiming, revoking and listing keys",
    short: "--seconds 4 --rows 50000".split(" "),
    load: async () => (await import("../web/web.js")).benchWeb,
  },
  {
    id: "web-app",
    area: "web",
    cores: 2,
    what: "the web application in a headless browser",
    short: "--rounds 1 --rows 200000 --logs 100000 --spans 5000".split(" "),
    load: async () => (await import("../web/web-app.js")).benchWebApp,
  },
  {
    id: "questions",
    area: "queries",
    cores: 2,
    what: "the everyday questions over 8 days of a shop",
    short: "--scale 0.02 --rounds 2".split(" "),
    load: async () => (await import("../questions.js")).benchQuestions,
  },
  {
    id: "hurt",
    area: "queries",
    cores: 2,
    what: "what others notice of a tenant whose statements are meant to hurt",
    short: "--rounds 1 --kill-minutes 0.2".split(" "),
    load: async () => (await import("../hurt.js")).benchHurt,
  },
  {
    id: "micro",
    area: "ingestion",
    cores: 1,
    isInProcess: true,
    what: "the small parts that every request passes, on one thread",
    short: "--milliseconds 200".split(" "),
    load: async () => (await import("../parts/micro.js")).benchMicro,
  },
  {
    id: "decode",
    area: "ingestion",
    cores: 1,
    isInProcess: true,
    what: "decoding OTLP into columns, on one thread",
    short: "--seconds 0.3".split(" "),
    load: async () => (await import("../parts/decode.js")).benchDecode,
  },
  {
    id: "parquet",
    area: "storage",
    cores: 1,
    isInProcess: true,
    what: "writing Parquet, beside parquet-wasm",
    short: "--rounds 8".split(" "),
    load: async () => (await import("../parts/parquet.js")).benchParquet,
  },
  {
    id: "endpoint",
    area: "ingestion",
    cores: 2,
    what: "the load of `ingest` against any OTLP endpoint",
    short: null,
    load: async () => (await import("../endpoint.js")).benchEndpoint,
  },
  {
    id: "peers",
    area: "ingestion",
    cores: 2,
    what: "the ingestion server beside a Collector, or another receiver of OTLP, in turns",
    short: null,
    load: async () => (await import("../peers/peers.js")).benchPeers,
  },
  {
    id: "cluster",
    area: "queries",
    cores: 2,
    what: "what the analytics server adds to a cluster's time: Sail, or Spark",
    short: null,
    load: async () => (await import("../peers/cluster.js")).benchCluster,
  },
  {
    id: "scaling",
    area: "storage",
    cores: 1,
    what: "objects, transactions and planning by load; constants of docs/scaling.md",
    short: null,
    load: async () => (await import("../scaling.js")).benchScaling,
  },
  {
    id: "growth",
    area: "storage",
    cores: 1,
    what: "ingestion and merging in a lake of many objects, and of ten times as many",
    short: null,
    load: async () => (await import("../parts/growth.js")).benchGrowth,
  },
  {
    id: "soak",
    area: "ingestion",
    cores: 2,
    what: "memory of the ingestion server at full load for half an hour",
    short: null,
    load: async () => (await import("../soak.js")).benchSoak,
  },
];
