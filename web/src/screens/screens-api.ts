/** Screens on the server. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import { listAll } from "../admin/api.js";
import type { Screen, ScreenRow, ScreenVersionRow } from "../api/wire.js";
import { call } from "../api/call.js";

const pathOf = (name: string): string => `api/screens/${encodeURIComponent(name)}`;

export function useScreens(): UseQueryResult<readonly ScreenRow[]> {
  return useQuery({
    queryKey: ["screens"],
    queryFn: ({ signal }) => listAll<ScreenRow>("api/screens", {}, signal),
  });
}

/** Fetched once: what somebody edits does not change beneath them. */
export function useScreen(name: string): UseQueryResult<Screen> {
  return useQuery({
    queryKey: ["screen", name],
    queryFn: ({ signal }) => getScreen(name, signal),
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

export function useScreenVersions({ name, version }: ScreenRow): UseQueryResult<readonly ScreenVersionRow[]> {
  return useQuery({
    queryKey: ["screen-versions", name, version],
    queryFn: ({ signal }) => call<readonly ScreenVersionRow[]>(`${pathOf(name)}/versions`, { signal }),
    gcTime: 0,
  });
}

export function getScreen(name: string, signal?: AbortSignal): Promise<Screen> {
  return call<Screen>(pathOf(name), { signal });
}

export function getScreenVersion(name: string, version: number): Promise<{ readonly config: unknown }> {
  return call(`${pathOf(name)}/versions/${version}`);
}

/**
 * @param o.version the version that was changed; 0: the screen is new
 * @throws ApiError 409 when the server has another version
 */
export function putScreen(
  name: string,
  o: { readonly folder: string | null; readonly config: unknown; readonly version: number },
): Promise<Screen> {
  const { folder, config, version } = o;
  return call<Screen>(pathOf(name), {
    method: "PUT",
    body: { ...(folder === null ? {} : { folder }), config, version },
  });
}

export function deleteScreen(name: string, version: number): Promise<void> {
  return call(pathOf(name), { method: "DELETE", query: { version } });
}

export function useFolders(): UseQueryResult<readonly { readonly name: string; readonly screens: number }[]> {
  return useQuery({ queryKey: ["folders"], queryFn: ({ signal }) => listAll("api/folders", {}, signal) });
}
