/** The routes of the web application as data, as admin-api.ts has them: queries, screens, data sources, maps. */
import { booleanField, integerField, optional, optionalInteger, scalarsField, textField } from "./fields.js";
import { screenField } from "./screen-config.js";
import {
  boolean,
  integer,
  nothing,
  object,
  operation,
  orNull,
  page,
  pointInTime,
  responsesOf,
  string,
  strings,
  time,
} from "./operation.js";
import { arrowStreamType, framesType } from "./query-frames.js";

/** Name of the data source that is always there: the analytics server of `SVC_ANALYTICS_URI`. */
export const builtInSource = "built-in";
/** Longest statement in bytes; with everything else it has to fit a body. */
const maxSqlBytes = 1_000_000;
/** Media type of a map (IANA). */
export const mapType = "model/gltf-binary";
/** Largest map in bytes. */
const maxMapBytes = 64 * 1024 * 1024;

/** A name that is a segment of a path: no slash, no control character, no white space outside, neither . nor .. */
const segment = (description: string) =>
  textField({
    description,
    pattern: /^(?!\.{1,2}$)[^\s\p{Cc}/\\](?:[^\p{Cc}/\\]*[^\s\p{Cc}/\\])?$/u,
    takes: "a name without slashes, control characters or outer white space",
  });
const screen = segment("name of a screen");
const folder = segment("name of a folder");
const dataSource = textField({
  description: "name of a data source",
  pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/,
  takes: "1 to 63 letters, digits, _ or -, the first a letter or digit",
});
const mapFile = textField({
  description: "file name of a map",
  maxBytes: 100,
  pattern: /^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.glb$/,
  takes: "letters, digits, _, - and single dots, and end in .glb",
});

const screenRow = {
  name: string,
  folder: orNull(string),
  version: integer,
  owner: string,
  created_at: time,
  updated_at: time,
  updated_by: string,
};
const versionRow = { version: integer, folder: orNull(string), saved_at: time, saved_by: string };
const config = { type: "object" } as const;
const screenSchema = object({ ...screenRow, config });

/** The named schemas of these routes. */
export const appComponents = {
  Config: object({
    version: string,
    features: strings,
    default_audience: string,
    self_service: { ...boolean, description: "whether people who are no administrators may mint ingestion keys" },
    login: { ...orNull(string), description: "path to send a browser to; null while authentication is disabled" },
    ingestion_url: {
      ...orNull(string),
      description: "where applications send OTLP over HTTP; null where this server does not know",
    },
    query_max_rows: integer,
    queries_per_session: integer,
  }),
  ScreenRow: object(screenRow),
  Screen: screenSchema,
  ScreenConflict: object({
    code: string,
    message: string,
    current: { ...screenSchema, type: ["object", "null"], description: "the screen as it is; null: there is none" },
  }),
  ScreenVersionRow: object(versionRow),
  ScreenVersion: object({ ...versionRow, config }),
  Folder: object({ name: string, created_at: time, created_by: string, screens: integer }),
  DataSourceName: object({ name: string, is_default: boolean, built_in: boolean }),
  DataSource: object({
    name: string,
    uri: { ...orNull(string), description: "null for the built-in one, which SVC_ANALYTICS_URI names" },
    is_default: boolean,
    built_in: boolean,
  }),
  Map: object({ file: string, bytes: integer, updated_at: time, updated_by: string }),
  Denial: object({ rule_id: string, match_expr: string, reason: string, created_at: time, created_by: string }),
  DenialTest: object({ matches: boolean }),
} as const;

const { one, many } = responsesOf(appComponents);
const conflict = one("another version is the present one, which is in the answer", "ScreenConflict");

/** Every route of the web application. */
export const appOperations = {
  query: operation("POST", "/api/query", {
    summary: "Run a statement as the caller; the answer is a stream of frames of Arrow messages",
    access: "caller",
    body: {
      sql: textField({ description: "the statement", maxBytes: maxSqlBytes }),
      data_source: optional(textField({ description: "analytics server to ask; unless given, the default one" })),
      begin: optional(pointInTime("rows before this time are left out")),
      end: optional(pointInTime("rows at or after this time are left out")),
      limit: optional(
        integerField({
          min: 1,
          max: 1_000_000_000,
          description: "most rows; D says whether there are more",
        }),
      ),
      parameters: optional(
        scalarsField({
          maxItems: 1000,
          description: "a value for each ? of the statement; whole numbers beyond 2^53 and times as text",
        }),
      ),
    },
    responses: {
      200: {
        description:
          "frames: a byte of kind, four bytes of length (little endian), the payload. S schema and B record batch (or dictionary), each an encapsulated Arrow IPC message; P progress {rows, bytes, milliseconds, objects}; the last one is D done, the same with cut, or E error {code, message, request_id}, all JSON. On Accept: application/vnd.apache.arrow.stream an Arrow IPC stream instead, which lacks its end when the query fails",
        schema: { type: "string", format: "binary" },
        types: [framesType, arrowStreamType],
      },
    },
    errors: ["NOT_FOUND", "TOO_MANY_REQUESTS"],
  }),
  config: operation("GET", "/api/config", {
    summary: "What a web application has to know before anybody logs in",
    access: "public",
    responses: { 200: one("the configuration", "Config") },
  }),
  listScreens: operation("GET", "/api/screens", {
    summary: "List screens by name, without what they show",
    access: "caller",
    query: { folder: optional(folder), ...page },
    responses: { 200: many("the screens", "ScreenRow") },
  }),
  getScreen: operation("GET", "/api/screens/{name}", {
    summary: "A screen",
    access: "caller",
    pathParameters: { name: screen },
    responses: { 200: one("the screen", "Screen") },
    errors: ["NOT_FOUND"],
  }),
  putScreen: operation("PUT", "/api/screens/{name}", {
    summary: "Save a screen; its owner and administrators may, anybody may make a new one",
    access: "caller",
    pathParameters: { name: screen },
    body: {
      folder: optional(folder),
      config: screenField({
        description: "what it shows",
        maxBytes: 512 * 1024,
        maxDepth: 32,
        maxValues: 20_000,
      }),
      version: optional(
        integerField({
          min: 0,
          max: 2_000_000_000,
          description: "the version that was changed; 0 or nothing for a new screen",
        }),
      ),
    },
    responses: { 200: one("the screen", "Screen"), 201: one("the new screen", "Screen"), 409: conflict },
    errors: ["FORBIDDEN", "NOT_FOUND"],
  }),
  deleteScreen: operation("DELETE", "/api/screens/{name}", {
    summary: "Delete a screen and its versions; its owner and administrators may",
    access: "caller",
    pathParameters: { name: screen },
    query: { version: optionalInteger({ min: 1, description: "delete it only if this is its version" }) },
    responses: { 204: nothing("deleted"), 409: conflict },
    errors: ["FORBIDDEN", "NOT_FOUND"],
  }),
  listScreenVersions: operation("GET", "/api/screens/{name}/versions", {
    summary: "List the versions of a screen that are kept, the last hundred, newest first",
    access: "caller",
    pathParameters: { name: screen },
    query: page,
    responses: { 200: many("the versions", "ScreenVersionRow") },
    errors: ["NOT_FOUND"],
  }),
  getScreenVersion: operation("GET", "/api/screens/{name}/versions/{version}", {
    summary: "A version of a screen",
    access: "caller",
    pathParameters: {
      name: screen,
      version: textField({ description: "its number", pattern: /^[1-9]\d{0,8}$/, takes: "a number" }),
    },
    responses: { 200: one("the version", "ScreenVersion") },
    errors: ["NOT_FOUND"],
  }),
  listFolders: operation("GET", "/api/folders", {
    summary: "List folders by name",
    access: "caller",
    query: page,
    responses: { 200: many("the folders", "Folder") },
  }),
  createFolder: operation("POST", "/api/folders", {
    summary: "Make a folder",
    access: "admin",
    body: { name: folder },
    responses: { 200: one("the folder, which existed already", "Folder"), 201: one("the folder", "Folder") },
    errors: ["CONFLICT"],
  }),
  renameFolder: operation("PATCH", "/api/folders", {
    summary: "Rename a folder; its screens stay in it",
    access: "admin",
    body: { name: folder, new_name: folder },
    responses: { 200: one("the folder", "Folder") },
    errors: ["NOT_FOUND", "CONFLICT"],
  }),
  deleteFolder: operation("DELETE", "/api/folders", {
    summary: "Delete a folder that holds no screen",
    access: "admin",
    query: { name: folder },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND", "CONFLICT"],
  }),
  listDataSources: operation("GET", "/api/data-sources", {
    summary: "Names of the analytics servers that queries may ask",
    access: "caller",
    responses: { 200: many("the data sources", "DataSourceName") },
  }),
  getDataSource: operation("GET", "/api/data-sources/{name}", {
    summary: "A data source with its address",
    access: "admin",
    pathParameters: { name: dataSource },
    responses: { 200: one("the data source", "DataSource") },
    errors: ["NOT_FOUND"],
  }),
  putDataSource: operation("PUT", "/api/data-sources/{name}", {
    summary: "Save a data source. It gets the identity token of everybody who queries it",
    access: "admin",
    pathParameters: { name: dataSource },
    body: {
      uri: textField({ description: "grpc://host:port or grpc+tls://host:port, without credentials" }),
      is_default: optional(booleanField("whether queries that name none ask it, instead of the one that did so far")),
    },
    responses: { 200: one("the data source", "DataSource"), 201: one("the new data source", "DataSource") },
    errors: ["CONFLICT"],
  }),
  deleteDataSource: operation("DELETE", "/api/data-sources/{name}", {
    summary: "Delete a data source; the built-in one stays",
    access: "admin",
    pathParameters: { name: dataSource },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND", "CONFLICT"],
  }),
  listMaps: operation("GET", "/api/maps", {
    summary: "List maps by name",
    access: "caller",
    query: page,
    responses: { 200: many("the maps", "Map") },
  }),
  getMap: operation("GET", "/api/maps/{file}", {
    summary: "A map",
    access: "caller",
    pathParameters: { file: mapFile },
    responses: {
      200: { description: "the file", schema: { type: "string", format: "binary" }, types: [mapType] },
    },
    errors: ["NOT_FOUND"],
  }),
  putMap: operation("PUT", "/api/maps/{file}", {
    summary: "Save a map: a binary glTF file, version 2",
    access: "admin",
    pathParameters: { file: mapFile },
    upload: { type: mapType, description: "the file", maxBytes: maxMapBytes },
    responses: { 200: one("the map", "Map"), 201: one("the new map", "Map") },
    errors: ["TOO_MANY_REQUESTS", "CONFLICT"],
  }),
  deleteMap: operation("DELETE", "/api/maps/{file}", {
    summary: "Delete a map",
    access: "admin",
    pathParameters: { file: mapFile },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND"],
  }),
  listDenials: operation("GET", "/api/query-denials", {
    summary: "List the rules that refuse queries, oldest first",
    access: "admin",
    responses: { 200: many("the rules", "Denial") },
  }),
  addDenial: operation("POST", "/api/query-denials", {
    summary: "Refuse the queries that an expression is true of",
    access: "admin",
    body: {
      match_expr: textField({
        description: "a condition over user, email, client, sql and sql_hash",
        maxBytes: 40_000,
      }),
      reason: textField({ description: "what callers who are refused read", maxBytes: 4000 }),
    },
    responses: { 201: one("the rule", "Denial") },
    errors: ["CONFLICT"],
  }),
  removeDenial: operation("DELETE", "/api/query-denials", {
    summary: "Delete a rule",
    access: "admin",
    query: { rule_id: textField({ description: "rule_id of a rule (UUID); the list shows it" }) },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND"],
  }),
  testDenial: operation("POST", "/api/query-denials/test", {
    summary: "Whether an expression is true of a text; nothing is saved",
    access: "admin",
    body: {
      match_expr: textField({ description: "as of a rule", maxBytes: 40_000 }),
      sql: textField({ description: "the text of a query", maxBytes: maxSqlBytes }),
      user: optional(textField({ description: "whose query; unless given, the caller" })),
      email: optional(textField({ description: "unless given, the caller's" })),
      client: optional(textField({ description: "user agent of the client" })),
    },
    responses: { 200: one("whether it is true", "DenialTest") },
  }),
} as const;
