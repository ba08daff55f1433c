/** Routes of the API as hooks and calls. Each names what the server answers. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import { call } from "./call.js";

/** What the caller may read and mint into. */
export interface MyAudiences {
  readonly email: string | null;
  readonly is_admin: boolean;
  /** Everybody is an administrator. */
  readonly admins_open: boolean;
  readonly read: readonly string[];
  readonly mint: readonly string[];
  readonly self_service: boolean;
}

export function useMyAudiences(): UseQueryResult<MyAudiences> {
  return useQuery({
    queryKey: ["my-audiences"],
    queryFn: ({ signal }) => call<MyAudiences>("api/audience-grants/my-audiences", { signal }),
    staleTime: 60_000,
  });
}

export interface DataSource {
  readonly name: string;
  readonly is_default: boolean;
}

/** Those that queries can name. */
export function useDataSources(): UseQueryResult<readonly DataSource[]> {
  return useQuery({
    queryKey: ["data-sources"],
    queryFn: ({ signal }) => call<readonly DataSource[]>("api/data-sources", { signal }),
    staleTime: 60_000,
  });
}

/** What the server says of itself to anybody. */
export interface ServerConfig {
  readonly version: string;
  readonly features: readonly string[];
  readonly default_audience: string;
  readonly self_service: boolean;
  /** Where OTLP over HTTP goes; null: this server does not know. */
  readonly ingestion_url: string | null;
  readonly query_max_rows: number;
}

export function useConfig(): UseQueryResult<ServerConfig> {
  return useQuery({
    queryKey: ["config"],
    queryFn: ({ signal }) => call<ServerConfig>("api/config", { signal }),
    staleTime: 600_000,
  });
}
