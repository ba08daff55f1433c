/** `telemetry login`, `logout` and `whoami`. */
import { rm } from "node:fs/promises";

import { CredentialError } from "../auth/credential-error.js";
import { member } from "../shared/json-member.js";
import { claimsOf, discoverProvider } from "../auth/oidc-protocol.js";
import {
  type StoredLogin,
  readLogin,
  tokenFilePath,
  tokenFiles,
  underTokenLock,
  userDirectory,
} from "../auth/token-file.js";
import { escapeControls } from "../shared/escape-controls.js";
import { isObject } from "../shared/is-object.js";
import { openWeb } from "./admin/ask-web.js";
import { webSettings } from "./admin/flags.js";
import { routes } from "./admin/routes.js";
import { type CommandContext, type Define, UsageError, exitCodes } from "./context.js";
import { showFields, showJson } from "./formats/show.js";
import { addSettings, loginSettings, readSettings, shared } from "./settings.js";
import { chosenLogin, chosenTokenFile, developmentHint, identityToken } from "./sign-in.js";

/** `telemetry login`. */
export const defineLogin: Define = (command, runs, context) => {
  const settings = { json: shared.json, ...loginSettings };
  addSettings(command, settings);
  runs(command, async () => {
    const values = readSettings(command, context.env, settings);
    const provider = await chosenLogin(values, context, "log-in");
    if (provider === null) {
      const advice = await developmentHint(context);
      throw new UsageError(
        advice ??
          "set SVC_OIDC_ISSUER and SVC_OIDC_CLIENT_ID to say where to log in; in development mode load data/dev.env",
      );
    }
    let login: StoredLogin;
    try {
      login = await provider.logIn(context.terminal.interrupted);
    } catch (error) {
      if (context.terminal.interrupted.aborted) {
        return exitCodes.interrupted;
      }
      throw error;
    }
    const shown = { ...personOf(login.idToken ?? login.accessToken), issuer: login.issuer };
    await (values.json ? showJson(shown, context.terminal) : showFields(shown, context.terminal));
    return exitCodes.ok;
  });
};

/** `telemetry logout`: removes the tokens of every profile, or of one. */
export const defineLogout: Define = (command, runs, context) => {
  const settings = { json: shared.json, profile: shared.profile };
  addSettings(command, settings);
  runs(command, async () => {
    const { json, profile } = readSettings(command, context.env, settings);
    const say = (line: string): void => {
      if (!json) {
        context.terminal.stdout.write(`${line}\n`);
      }
    };
    const directory = userDirectory(context.homeDirectory);
    // SVC_PROFILE narrows no logout: who leaves a machine means all of it.
    const only = command.getOptionValue("profile") === undefined ? null : profile;
    const files = await tokenFiles(directory);
    const chosen = only === null ? files : files.filter((file) => file === tokenFilePath(directory, only));
    const isAlone = files.length === 1;
    for (const file of chosen) {
      const login = await removed(file, context.terminal.interrupted);
      if (login === "interrupted") {
        return exitCodes.interrupted;
      }
      say(`removed ${file}`);
      if (login !== null) {
        await revoke(login, isAlone, context);
      }
    }
    if (chosen.length === 0) {
      say("there was no login");
    }
    if (json) {
      await showJson({ removed: chosen }, context.terminal);
    }
    return exitCodes.ok;
  });
};

/** Removes a token file and gives what it held; null when that is no login. */
async function removed(file: string, interrupted: AbortSignal): Promise<StoredLogin | "interrupted" | null> {
  const work = async (): Promise<StoredLogin | null> => {
    // What cannot be read is removed all the same.
    const login = await readLogin(file).catch(() => null);
    await rm(file, { force: true });
    return typeof login === "string" ? null : login;
  };
  try {
    return await underTokenLock(file, work, interrupted);
  } catch (error) {
    if (interrupted.aborted) {
      return "interrupted";
    }
    throw error;
  }
}

/** Asks the provider to forget the login; its file is gone in any case. */
async function revoke(login: StoredLogin, isAlone: boolean, { env, terminal }: CommandContext): Promise<void> {
  if (login.refreshToken === null) {
    return;
  }
  try {
    const { issuer, clientId } = login;
    // Profiles may be at several providers, and the secret is of one.
    const isItsSecret = env["SVC_OIDC_ISSUER"] ? env["SVC_OIDC_ISSUER"] === issuer : isAlone;
    const clientSecret = isItsSecret ? env["SVC_OIDC_CLIENT_SECRET"] || null : null;
    const provider = await discoverProvider({ issuer, clientId, clientSecret, audience: null, scope: "openid" });
    await provider.revoke(login.refreshToken);
  } catch (error) {
    const reason = error instanceof CredentialError ? error.message : "it cannot be asked";
    terminal.stderr.write(`telemetry: the provider was not told: ${escapeControls(reason)}\n`);
  }
}

/** `telemetry whoami`: who the login is, and what the service lets it do. */
export const defineWhoami: Define = (command, runs, context) => {
  const settings = { json: shared.json, ...webSettings };
  addSettings(command, settings);
  runs(command, async () => {
    const values = readSettings(command, context.env, settings);
    const { idToken } = await identityToken(values, context);
    const rights = await (await openWeb(values, context))({ ...routes.myAudiences });
    const file = values.tokenFile ?? (await chosenTokenFile(values, context));
    const issuer = member(claimsOf(idToken), "iss");
    const shown = { ...personOf(idToken), ...(isObject(rights) ? rights : {}), issuer, token_file: file };
    await (values.json ? showJson(shown, context.terminal) : showFields(shown, context.terminal));
    return exitCodes.ok;
  });
};

function personOf(token: string): Record<string, unknown> {
  const claims = claimsOf(token);
  return { email: member(claims, "email") ?? null, subject: member(claims, "sub") ?? null };
}
