/** The operations of the web application that ask the database alone. */
import { ServiceError } from "../../runtime/errors.js";
import type { FrontOperationId } from "../../wire/web/admin-api.js";
import { type appOperations, builtInSource } from "../../wire/web/app-api.js";
import { created, type Handlers, noContent, ok, type Result } from "../operation-context.js";
import { deleteSource, noSuchSource, saveSource, selectSources, type SourceRow } from "./data-sources.js";
import { createFolder, deleteFolder, renameFolder, selectFolders } from "./folders.js";
import { selectMaps } from "./maps.js";
import {
  deleteScreen,
  saveScreen,
  type ScreenChange,
  selectScreen,
  selectScreens,
  selectScreenVersion,
  selectScreenVersions,
} from "./screens.js";

/** Operations over the schema `web`. */
export type WebOperationId = Exclude<keyof typeof appOperations, FrontOperationId>;

export const webHandlers: Handlers<WebOperationId> = {
  listScreens: async ({ query }, { read }) => ok(await read((sql) => selectScreens(sql, query.folder ?? null, query))),
  getScreen: async ({ path }, { read }) => ok(await read((sql) => selectScreen(sql, path.name))),
  putScreen: async ({ path, body }, { transaction, caller }) =>
    changed(
      await transaction((tx) =>
        saveScreen(tx, caller, {
          name: path.name,
          folder: body.folder ?? null,
          config: body.config,
          version: body.version ?? 0,
        }),
      ),
    ),
  deleteScreen: async ({ path, query }, { transaction, caller }) =>
    changed(await transaction((tx) => deleteScreen(tx, caller, path.name, query.version ?? null))),
  listScreenVersions: async ({ path, query }, { read }) =>
    ok(await read((sql) => selectScreenVersions(sql, path.name, query))),
  getScreenVersion: async ({ path }, { read }) =>
    ok(await read((sql) => selectScreenVersion(sql, path.name, Number(path.version)))),
  listFolders: async ({ query }, { read }) => ok(await read((sql) => selectFolders(sql, query))),
  createFolder: async ({ body }, { transaction, caller }) =>
    created(await transaction((tx) => createFolder(tx, caller, body.name))),
  renameFolder: async ({ body }, { transaction }) =>
    ok(await transaction((tx) => renameFolder(tx, body.name, body.new_name))),
  deleteFolder: ({ query }, context) => noContent(context, (tx) => deleteFolder(tx, query.name)),
  async listDataSources(_input, { read }) {
    const rows = await read(selectSources);
    const own = { name: builtInSource, is_default: !rows.some((row) => row.is_default), built_in: true };
    return ok([own, ...rows.map(({ name, is_default }) => ({ name, is_default, built_in: false }))]);
  },
  async getDataSource({ path }, { read }) {
    const rows = await read(selectSources);
    if (path.name === builtInSource) {
      const isDefault = !rows.some((row) => row.is_default);
      return ok({ name: builtInSource, uri: null, is_default: isDefault, built_in: true });
    }
    const row = rows.find(({ name }) => name === path.name);
    if (row === undefined) {
      throw noSuchSource();
    }
    return ok(shown(row));
  },
  async putDataSource({ path, body }, context) {
    const row = { name: path.name, uri: body.uri, is_default: body.is_default ?? false };
    const saved = await context.transaction((tx) => saveSource(tx, context, row));
    return created({ ...saved, row: shown(saved.row) });
  },
  deleteDataSource: ({ path }, context) => noContent(context, (tx) => deleteSource(tx, context, path.name)),
  listMaps: async ({ query }, { read }) => ok(await read((sql) => selectMaps(sql, query))),
};

function shown(row: SourceRow): SourceRow & { readonly built_in: boolean } {
  return { ...row, built_in: false };
}

function changed(change: ScreenChange): Result {
  switch (change.kind) {
    case "saved":
      return { status: change.created ? 201 : 200, value: change.screen };
    case "deleted":
      return { status: 204 };
    case "conflict": {
      const { current } = change;
      const message =
        current === null
          ? "the screen was deleted meanwhile; save it as a new one"
          : `${current.updated_by} has saved version ${current.version} of this screen; look at it before you save yours`;
      return { status: 409, value: { code: new ServiceError("CONFLICT").code, message, current } };
    }
  }
}
