/**
 * Random SQL that is after files which it may not open: readers of every format over every way to name a path,
 * statements that write, attach, install and load, and settings that would open the way for what follows. Nothing in it
 * tells the clock or leaves anything to chance.
 */
import { quoteText } from "../../../src/runtime/text/sql-text.js";
import { seededRandom } from "../seeded-random.js";

interface RandomFileSqlOptions {
  readonly seed: number;
  /** Absolute directories and files in them that may be opened. */
  readonly own: readonly OwnDirectory[];
  /** Absolute paths of files that may not. */
  readonly hidden: readonly string[];
  /** Absolute directory above all of them. */
  readonly root: string;
  /** Absolute directory in which nothing may appear. */
  readonly outside: string;
}

interface OwnDirectory {
  readonly directory: string;
  readonly file: string;
}

/** A generator of statements. */
export function createRandomFileSql(o: RandomFileSqlOptions): () => string {
  const random = seededRandom(o.seed);
  const below = (n: number): number => Math.floor(random() * n);
  const pick = <T>(items: readonly T[]): T => {
    const item = items[below(items.length)];
    if (item === undefined) {
      throw new RangeError("nothing to pick from");
    }
    return item;
  };
  const own = (): OwnDirectory => pick(o.own);
  let written = 0;

  /** Another way to say a path. */
  const said = (path: string): string => {
    const slash = path.lastIndexOf("/");
    const [directory, name] = [path.slice(0, slash), path.slice(slash + 1)];
    const below3 = path.slice(o.root.length + 1);
    switch (below(18)) {
      case 0:
        return `${own().directory}/../../${below3}`;
      case 1:
        return `${own().file}/../../../${below3}`;
      case 2:
        return path.replaceAll("/", "//");
      case 3:
        return `${directory}/./${name}`;
      case 4:
        return `${directory}/*`;
      case 5:
        return `${o.root}/*/*/*.parquet`;
      case 6:
        return `${o.root}/**`;
      case 7:
        return `${own().directory}/../*/*`;
      case 8:
        return `file://${path}`;
      case 9:
        return `file:${path}`;
      case 10:
        return `/proc/self/root${path}`;
      case 11:
        return `${directory}/${name.slice(0, -1)}?`;
      case 12:
        return `${directory}/[${name.slice(0, 1)}]${name.slice(1)}`;
      case 13:
        return `${own().directory}*/${name}`;
      case 14:
        return directory;
      case 15:
        return `../../../../../../../../../..${path}`;
      default:
        return path;
    }
  };
  const target = (): string =>
    random() < 0.1
      ? pick(["/etc/passwd", "/proc/self/environ", "/proc/self/maps", "/proc/self/cmdline"])
      : said(pick(o.hidden));
  const path = (): string => quoteText(random() < 0.15 ? own().file : target());

  /** Something to select from. */
  const reader = (): string => {
    switch (below(8)) {
      case 0:
        return path();
      case 1:
        return `"${target().replaceAll('"', "")}"`;
      case 2:
        return `${pick(["read_parquet", "read_csv", "read_json", "read_text", "read_blob"])}([${quoteText(own().file)}, ${path()}])`;
      case 3:
        return `read_parquet(${path()}, ${pick(["union_by_name = true", "filename = true", "hive_partitioning = true", "file_row_number = true"])})`;
      case 4:
        return `parquet_bloom_probe(${path()}, 'msg', 'x')`;
      case 5:
        return `query(${quoteText(`SELECT * FROM read_text(${path()})`)})`;
      default:
        return `${pick(readers)}(${path()})`;
    }
  };

  const query = (): string => {
    const from = reader();
    return pick([
      `SELECT * FROM ${from}`,
      `SELECT CAST(t AS VARCHAR) FROM ${from} AS t`,
      `SELECT count(*) FROM ${from}`,
      `FROM ${from}`,
      `WITH w AS MATERIALIZED (SELECT * FROM ${from}) SELECT * FROM w`,
      `SELECT (SELECT count(*) FROM ${from}) AS n, (SELECT count(*) FROM log_entries) AS m`,
      `SELECT * FROM log_entries AS l, LATERAL (SELECT count(*) AS n FROM ${from}) AS t`,
      `DESCRIBE SELECT * FROM ${from}`,
      `SUMMARIZE SELECT * FROM ${from}`,
      `EXPLAIN SELECT * FROM ${from}`,
    ]);
  };

  const newFile = (): string => `${own().directory}/new${written++}.${pick(["parquet", "csv", "json"])}`;

  const statement = (): string => {
    switch (below(16)) {
      case 0:
        return `COPY (${query()}) TO ${quoteText(newFile())}`;
      case 1:
        return `COPY (SELECT 1 AS a) TO ${pick([path(), quoteText(`${o.outside}/${written++}.csv`)])}`;
      case 2:
        return `CREATE TABLE copied${written++} AS ${query()}`;
      case 3:
        return `COPY log_entries FROM ${path()}`;
      case 4:
        return `ATTACH ${path()} AS other${written++}${pick(["", " (READ_ONLY)", " (TYPE sqlite)"])}`;
      case 5:
        return `EXPORT DATABASE ${pick([path(), quoteText(o.outside)])}`;
      case 6:
        return `IMPORT DATABASE ${path()}`;
      case 7:
        return `${pick(["INSTALL", "FORCE INSTALL", "LOAD"])} ${pick(["httpfs", "sqlite", "excel", path()])}`;
      case 8:
      case 9:
        return setting();
      case 10:
        return `CREATE ${pick(["VIEW", "OR REPLACE VIEW", "TEMP VIEW"])} v${written++} AS ${query()}`;
      case 11:
        return `PREPARE p AS ${query()}`;
      case 12:
        return pick([
          `CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b', SCOPE ${path()})`,
          `CALL enable_logging(storage = 'file', storage_config = {'path': ${quoteText(o.outside)}})`,
          `CALL load_aws_credentials(${path()})`,
          `CREATE PERSISTENT SECRET s (TYPE http)`,
          "CHECKPOINT",
          "FORCE CHECKPOINT",
        ]);
      default:
        return query();
    }
  };

  const setting = (): string => {
    const value = pick([
      quoteText(o.root),
      quoteText("/"),
      `[${quoteText(o.root)}]`,
      "['/']",
      "true",
      "false",
      quoteText(`${o.outside}/${written++}`),
    ]);
    const name = pick(settings);
    return pick([
      `SET ${name} = ${value}`,
      `SET GLOBAL ${name} = ${value}`,
      `SET SESSION ${name} = ${value}`,
      `RESET ${name}`,
      `PRAGMA ${name} = ${value}`,
      `SET VARIABLE ${name} = ${value}`,
    ]);
  };

  return statement;
}

const readers = [
  "read_parquet",
  "parquet_scan",
  "parquet_metadata",
  "parquet_schema",
  "parquet_file_metadata",
  "parquet_kv_metadata",
  "parquet_full_metadata",
  "read_text",
  "read_blob",
  "read_csv",
  "read_csv_auto",
  "read_json",
  "read_json_auto",
  "read_json_objects",
  "read_json_objects_auto",
  "read_ndjson",
  "read_ndjson_objects",
  "sniff_csv",
  "glob",
  "query_table",
] as const;

const settings = [
  "allowed_directories",
  "allowed_paths",
  "allowed_configs",
  "enable_external_access",
  "lock_configuration",
  "disabled_filesystems",
  "temp_directory",
  "home_directory",
  "extension_directory",
  "extension_directories",
  "secret_directory",
  "file_search_path",
  "log_query_path",
  "enable_logging",
  "logging_storage",
  "enable_profiling",
  "profiling_output",
  "profile_output",
  "allow_unsigned_extensions",
  "allow_community_extensions",
  "autoload_known_extensions",
  "custom_extension_repository",
  "enable_object_cache",
  "search_path",
  "schema",
  "streaming_buffer_size",
] as const;
