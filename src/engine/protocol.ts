/**
 * What the server and an engine process say to each other over the engine's file descriptor 3. One engine runs
 * one job at a time. Frames are those of frames.ts; JSON is UTF-8. Closing the stream ends the engine.
 */

/** Kinds of frames: one ASCII character each. */
export const frameKinds = {
  /** Server: JSON {@link EngineJob}; only after `hello`, and only after the `end` of the job before. */
  job: 0x4a, // J
  /**
   * Server: u32, little endian: this many more `data` frames of the present job may be sent; none before
   * the first credit.
   */
  credit: 0x43, // C
  /** Server: empty: give the present job up. Nothing happens when there is none. */
  interrupt: 0x58, // X
  /** Engine: JSON {@link EngineHello}: ready for a job. */
  hello: 0x48, // H
  /** Engine: JSON {@link StepResult}, one for each step that ended well but `stream`, in order. */
  result: 0x52, // R
  /** Engine: one FlightData message (Flight.proto), its header and its body; the schema comes first. */
  data: 0x44, // D
  /**
   * Engine: two numbers of 32 bits, little endian: such a message, where it begins in the memory that both share, and
   * its bytes (message-slots.ts).
   */
  slot: 0x53, // S
  /**
   * Engine: JSON {@link JobEnd}; with shared memory, not before all messages in it have been released. The next job may
   * come.
   */
  end: 0x45, // E
  /** Both: empty. The server asks, the engine answers when it has removed what jobs before have left behind. */
  tidied: 0x54, // T
} as const;

/** Most bytes of a job's frame. */
export const maxJobBytes = 64 << 20;

/**
 * The first credit of a job whose engine shares memory with the server; each further credit is for one message that its
 * reader is done with. One is written while the next is fetched.
 */
export const messagesAhead = 3;

/** What an engine says first. */
export interface EngineHello {
  readonly pid: number;
  /** DuckDB's version, like `v1.5.6`. */
  readonly duckdb: string;
}

/**
 * Statements that run one after another on a fresh connection, which is closed afterwards. The first error ends the
 * job.
 */
export interface EngineJob {
  readonly instance: InstanceOptions;
  readonly steps: readonly EngineStep[];
}

/**
 * The DuckDB that a job runs on. An engine keeps at most one instance that reaches files and one that reaches none;
 * another key closes the one it takes the place of. What takes rows in place has a second instance of the same key.
 */
export interface InstanceOptions {
  /** Names everything below: the same key means the same options. */
  readonly key: string;
  /**
   * Absolute paths of the only directories that it reads and writes. With none, and no paths, it opens no file at all.
   */
  readonly directories: readonly string[];
  /** Absolute paths of single files that it reads and writes besides. */
  readonly paths: readonly string[];
  /** DuckDB's own limit; the process has another, of the operating system's. */
  readonly memoryBytes: number;
  /** Absolute path of the directory for what does not fit into memory; DuckDB makes it. */
  readonly tempDirectory: string;
  readonly tempBytes: number;
  /** At least 1. */
  readonly threads: number;
  /** Statements that run before the instance is locked: CREATE MACRO and the like. */
  readonly setup: readonly string[];
}

/** A value for a parameter. Values are bound in the order of the statement's parameters. */
export type EngineValue =
  /** DuckDB's type, as `CAST` takes it, and text that casts to it (of a BLOB: base64). Null is SQL's NULL. */
  | { readonly type: string; readonly text: string | null }
  /** A VARCHAR[]. */
  | { readonly texts: readonly string[] };

/** The name of a column or of a field in it, and those of its fields. */
export interface FieldNames {
  readonly name: string;
  readonly children: readonly FieldNames[];
}

/** One statement of a job. */
export type EngineStep =
  | {
      readonly kind: "execute";
      readonly sql: string;
      readonly values?: readonly EngineValue[];
      /** Runs in its place when `sql` ends with a Binder Error. */
      readonly orElse?: string;
    }
  | {
      readonly kind: "rows";
      readonly sql: string;
      readonly values?: readonly EngineValue[];
      /** Most bytes of text in all rows; more is an error of kind `limit`. */
      readonly maxBytes: number;
      /** An error of DuckDB's is this step's result and does not end the job. */
      readonly optional?: boolean;
    }
  /** Prepares and does not run. */
  | { readonly kind: "describe"; readonly sql: string }
  | {
      readonly kind: "stream";
      readonly sql: string;
      readonly values?: readonly EngineValue[];
      /** Of the columns, when there are as many; else DuckDB's. */
      readonly names?: readonly FieldNames[];
      /** Runs in its place, with the same values, when `sql` ends with a Binder Error. */
      readonly orElse?: string;
      /** Every column is of numbers, dates or times: DuckDB computes farther ahead of what is sent. */
      readonly ahead?: "numbers";
      /** One thread computes it and takes its rows where they are, in place of fetching copies: for what is mostly reading. */
      readonly inPlace?: boolean;
      /** Chunks are joined into messages of about this many bytes. */
      readonly messageBytes: number;
      /** The result is cut after this many rows, and `truncated` says so. */
      readonly maxRows?: number;
      /** A result of more bytes ends the job with an error of kind `limit`. */
      readonly maxBytes?: number;
    };

/**
 * A value of `rows`: truth, DOUBLE and numbers up to 32 bits as they are, numbers of 64 bits and VARCHAR as text.
 * Columns of other types are an error: cast them to VARCHAR.
 */
export type RowValue = string | number | boolean | null;

/** A parameter of a statement that was described. */
export interface ParameterType {
  /** `1`, `2`, ... for `?` and `$1`, else the name behind the `$`. */
  readonly name: string;
  /** DuckDB's name of the type; null where the statement does not say. */
  readonly type: string | null;
}

/** What a step gave. */
export interface StepResult {
  /** Of `rows`. */
  readonly rows?: readonly (readonly RowValue[])[];
  /** Of `execute`: rows that the statement changed. */
  readonly changed?: number;
  /** Of `describe`: the Arrow schema message (a FlatBuffer, not encapsulated) in base64. */
  readonly schema?: string;
  /** Of `describe`: in the order in which values are bound. */
  readonly parameters?: readonly ParameterType[];
  /** Of an optional step: DuckDB's sentence. */
  readonly error?: string;
}

/** How a job ended. Counts are those of its `stream` steps. */
export interface JobEnd {
  /** Null when every step ran to its end; else what DuckDB said, with the class in front ("Binder Error: ..."). */
  readonly error: string | null;
  /**
   * With an error: it was interrupted, a result was too large, the job itself was and did not begin, or DuckDB failed.
   */
  readonly kind?: "cancelled" | "limit" | "job" | "duckdb";
  /** A step met the end of the memory, an optional one included. */
  readonly outOfMemory?: boolean;
  readonly rows: number;
  readonly batches: number;
  /** Of the `data` frames. */
  readonly bytes: number;
  /** Most memory that the process had resident during the job; null where the system does not tell. */
  readonly peakMemoryBytes: number | null;
  /** The result was cut at `maxRows`. */
  readonly truncated?: boolean;
}
