/** What the one catalog and its one schema are called where a protocol or a tool asks for names. */

/** The catalog. */
export const catalogName = "telemetry";

/** Its schema. */
export const schemaName = "main";

/** What the tables are to metadata. */
export const tableType = "VIEW";
