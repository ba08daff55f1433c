/** Routes of the API as hooks and calls. Each names what the server answers. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import type { Config, DataSourceName, MyAudiences } from "./wire.js";
import { call } from "./call.js";

export function useMyAudiences(): UseQueryResult<MyAudiences> {
  return useQuery({
    queryKey: ["my-audiences"],
    queryFn: ({ signal }) => call<MyAudiences>("api/audience-grants/my-audiences", { signal }),
    staleTime: 60_000,
  });
}

/** Those that queries can name. */
export function useDataSources(): UseQueryResult<readonly DataSourceName[]> {
  return useQuery({
    queryKey: ["data-sources"],
    queryFn: ({ signal }) => call<readonly DataSourceName[]>("api/data-sources", { signal }),
    staleTime: 60_000,
  });
}

export function useConfig(): UseQueryResult<Config> {
  return useQuery({
    queryKey: ["config"],
    queryFn: ({ signal }) => call<Config>("api/config", { signal }),
    staleTime: 600_000,
  });
}
