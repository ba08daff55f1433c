/** What the web server answers. Written by scripts/write-api-types.ts from the tables of its routes: change those. */

export interface Error {
  readonly code: string;
  readonly message: string;
}

export interface MintedIngestionKey extends MintedAnalyticsKey {
  readonly audience: string;
  readonly claimed: boolean;
}

export interface MintedAnalyticsKey {
  readonly key_id: string;
  readonly name: string;
  readonly created_at: string;
  readonly key: string;
}

export interface IngestionKey extends AnalyticsKey {
  readonly audience: string;
  readonly usage_24h?: {
    readonly requests: number;
    readonly bytes: number;
    readonly records: number;
  };
}

export interface AnalyticsKey {
  readonly key_id: string;
  readonly name: string;
  readonly created_at: string;
  readonly created_by: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
  readonly revoked_by: string | null;
}

export interface Revoked {
  readonly revoked_at: string;
}

export interface Grant {
  readonly audience: string;
  readonly kind: "read" | "mint";
  readonly member: string;
  readonly created_at: string;
  readonly created_by: string;
}

export interface MyAudiences {
  readonly email: string | null;
  readonly is_admin: boolean;
  /** True while the group admins holds *, which makes everybody an administrator; to end it, add the administrators and remove *. */
  readonly admins_open: boolean;
  readonly read: readonly string[];
  readonly mint: readonly string[];
  readonly self_service: boolean;
}

export interface Group {
  readonly name: string;
  readonly created_at: string;
  readonly created_by: string;
}

export interface GroupMember {
  readonly member: string;
  readonly created_at: string;
  readonly created_by: string;
}

export interface AuditEntry {
  readonly audit_id: number;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface UsageRow {
  /** Start of the hour or day, UTC. */
  readonly at: string;
  readonly key_id: string;
  readonly name: string;
  readonly audience: string;
  readonly requests: number;
  readonly bytes: number;
  readonly records: number;
}

export interface Config {
  readonly version: string;
  readonly features: readonly string[];
  readonly default_audience: string;
  /** Whether people who are no administrators may mint ingestion keys. */
  readonly self_service: boolean;
  /** Path to send a browser to; null while authentication is disabled. */
  readonly login: string | null;
  /** Where applications send OTLP over HTTP; null where this server does not know. */
  readonly ingestion_url: string | null;
  readonly query_max_rows: number;
  readonly queries_per_session: number;
}

export interface ScreenRow {
  readonly name: string;
  readonly folder: string | null;
  readonly version: number;
  readonly owner: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by: string;
}

export interface Screen extends ScreenRow {
  readonly config: Readonly<Record<string, unknown>>;
}

export interface ScreenConflict {
  readonly code: string;
  readonly message: string;
  /** The screen as it is; null: there is none. */
  readonly current: Screen | null;
}

export interface ScreenVersionRow {
  readonly version: number;
  readonly folder: string | null;
  readonly saved_at: string;
  readonly saved_by: string;
}

export interface ScreenVersion extends ScreenVersionRow {
  readonly config: Readonly<Record<string, unknown>>;
}

export interface Folder {
  readonly name: string;
  readonly created_at: string;
  readonly created_by: string;
  readonly screens: number;
}

export interface DataSourceName {
  readonly name: string;
  readonly is_default: boolean;
  readonly built_in: boolean;
}

export interface DataSource {
  readonly name: string;
  /** Null for the built-in one, which SVC_ANALYTICS_URI names. */
  readonly uri: string | null;
  readonly is_default: boolean;
  readonly built_in: boolean;
}

export interface Map {
  readonly file: string;
  readonly bytes: number;
  readonly updated_at: string;
  readonly updated_by: string;
}

export interface Denial {
  readonly rule_id: string;
  readonly match_expr: string;
  readonly reason: string;
  readonly created_at: string;
  readonly created_by: string;
}

export interface DenialTest {
  readonly matches: boolean;
}

export interface RetentionOverride {
  readonly view: string;
  /** Null: every audience without an override of its own. */
  readonly audience: string | null;
  /** 0: for good. */
  readonly days: number;
  readonly updated_at: string;
  readonly updated_by: string;
}

export interface RetentionDefault {
  /** SVC_RETENTION_DAYS of maintenance; null: for good. */
  readonly days: number | null;
  /** When maintenance last said so; null: never. */
  readonly seen_at: string | null;
  /** Nothing goes for its age before, because the database is new, its clock has jumped, or nobody looked at it for over an hour. */
  readonly held_until: string | null;
}

export interface ErasureId {
  readonly erasure_id: string;
}

export interface Erasure {
  readonly erasure_id: string;
  readonly audience: string;
  readonly where: {
    readonly service?: string;
    readonly process?: string;
    readonly trace?: string;
    readonly attribute?: {
      readonly key: string;
      readonly value: string;
    };
  };
  /** Nanoseconds since 1970. */
  readonly begin: string | null;
  /** Nanoseconds since 1970. */
  readonly end: string | null;
  readonly rows_removed: number;
  readonly objects_rewritten: number;
  readonly objects_removed: number;
  readonly state: "waiting" | "running" | "done" | "failed";
  readonly error: string | null;
  readonly created_at: string;
  readonly created_by: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export interface LakeCheckId {
  readonly check_id: string;
}

export interface LakeCheck {
  readonly check_id: string;
  readonly repair: boolean;
  readonly deep: boolean;
  /** Null before it is done. */
  readonly report: {
    readonly counts: {
      readonly objects: number;
      readonly rows: number;
      readonly missing: number;
      readonly unreadable: number;
      readonly wrong_rows: number;
      readonly wrong_size: number;
      readonly wrong_checksum: number;
      readonly orphan: number;
      readonly lost: number;
      readonly returned: number;
      readonly mended: number;
    };
    /** The first of them; counts has the number of all. */
    readonly problems: readonly {
      readonly kind: "missing" | "unreadable" | "wrong_rows" | "wrong_size" | "wrong_checksum" | "orphan" | "lost" | "returned";
      readonly path: string;
      readonly view: string | null;
      readonly audience: string | null;
      readonly rows: number | null;
      readonly mended: boolean;
      readonly detail: string;
    }[];
    /** What was left undone. */
    readonly notes: readonly string[];
  } | null;
  readonly state: "waiting" | "running" | "done" | "failed";
  readonly error: string | null;
  readonly created_at: string;
  readonly created_by: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}
