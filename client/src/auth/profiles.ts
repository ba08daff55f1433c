/** The per-user config file `~/.telemetry/config.json`. */
import { readFile } from "node:fs/promises";

import { CredentialError } from "./credential-error.js";
import { member } from "../shared/json-member.js";

/** A named entry of the `profiles` map of the per-user config file. */
interface Profile {
  /** File that holds an API key, relative to the config file's directory unless absolute. */
  readonly apiKeyFile: string | null;
}

/**
 * Reads profile `name` from the config file.
 * @throws CredentialError when the file or the profile is missing or malformed.
 */
export async function readProfile(configFile: string, name: string): Promise<Profile> {
  const text = await readFile(configFile, "utf8").catch((error: NodeJS.ErrnoException) => error);
  if (text instanceof Error) {
    throw refused(`profile ${name} was asked for, but ${configFile} cannot be read: ${text.code ?? text.message}`);
  }
  const profiles = member(parseJson(text, configFile), "profiles");
  if (profiles === undefined) {
    throw refused(`profile ${name} was asked for, but ${configFile} has no map "profiles"`);
  }
  const profile = member(profiles, name);
  if (typeof profile !== "object" || profile === null) {
    throw refused(`${configFile} has no profile named ${name}`);
  }
  const unknown = Object.keys(profile).find((key) => key !== "api_key_file");
  if (unknown !== undefined) {
    throw refused(
      `profile ${name} in ${configFile} has ${JSON.stringify(unknown)}; all that it may have is api_key_file`,
    );
  }
  const apiKeyFile = member(profile, "api_key_file");
  if (apiKeyFile !== undefined && typeof apiKeyFile !== "string") {
    throw refused(`api_key_file of profile ${name} in ${configFile} is not a string`);
  }
  return { apiKeyFile: apiKeyFile ?? null };
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw refused(`${file} is not valid JSON`, { cause: error });
  }
}

function refused(message: string, options?: ErrorOptions): CredentialError {
  return new CredentialError("FILE", message, options);
}
