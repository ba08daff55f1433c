/** What a program gets from `telemetry-service-client`. */
export { type AuthProvider, StaticKeyProvider, noToken, staticKey } from "./auth/auth-provider.js";
export { type ClientCredentialsOptions, ClientCredentialsProvider } from "./auth/client-credentials-provider.js";
export { CredentialError, type CredentialErrorCode } from "./auth/credential-error.js";
export { type OidcAuthOptions, OidcAuthProvider } from "./auth/oidc-auth-provider.js";
export {
  type ConnectOptions,
  type FlightSqlClient,
  type PreparedStatement,
  type QueryOptions,
  connect,
} from "./flight/flight-sql-client.js";
export { FlightSqlError } from "./flight/flight-sql-error.js";
export type { ColumnInfo, TableFilter, TableInfo } from "./flight/metadata.js";
export type { Parameter } from "./flight/parameters.js";
export type { QueryResult, Row } from "./flight/query-result.js";
export {
  type CellReader,
  type CellValue,
  ExactDecimal,
  cellJson,
  cellReader,
  cellText,
  columnReaders,
} from "./values/arrow-values.js";
