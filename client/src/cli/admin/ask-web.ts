/** Requests of commands to the web server. */
import { isLoopbackHost } from "../../shared/loopback.js";
import { requestWeb, WebError, type WebRequest } from "../../web/web-client.js";
import type { CommandContext } from "../context.js";
import type { LoginValues } from "../settings.js";
import { identityToken } from "../sign-in.js";
import type { Terminal } from "../terminal.js";

/** Sends requests as the person of the settings. */
export type AskWeb = (request: WebRequest) => Promise<unknown>;

/** Gets the identity token. @throws CredentialError, UsageError; what it gives throws WebError */
export async function openWeb(
  values: LoginValues & { readonly tokenFile: string | null; readonly webUrl: string },
  context: CommandContext,
): Promise<AskWeb> {
  const { idToken, tokenFile } = await identityToken(values, context);
  warnAboutPlaintext(values.webUrl, context.terminal);
  const server = { url: values.webUrl, idToken, signal: context.terminal.interrupted };
  return async (request) => {
    try {
      return await requestWeb(server, request);
    } catch (error) {
      throw withHint(error, tokenFile);
    }
  };
}

function warnAboutPlaintext(webUrl: string, terminal: Terminal): void {
  const { protocol, hostname } = new URL(webUrl);
  if (protocol === "http:" && !isLoopbackHost(hostname)) {
    terminal.stderr.write(
      "telemetry: your identity token travels unencrypted over http://; use https:// beyond this machine\n",
    );
  }
}

function withHint(error: unknown, tokenFile: string): unknown {
  if (!(error instanceof WebError)) {
    return error;
  }
  // As this service's other servers say it, and the web server beside its base path.
  const isElsewhere = error.status === null || (error.status === 404 && error.message.startsWith("no such path"));
  const advice =
    error.status === 401
      ? `; the token is from ${tokenFile}`
      : isElsewhere
        ? "; --web-url or SVC_WEB_URL says where the web server is"
        : null;
  return advice === null ? error : new WebError(error.status, `${error.message}${advice}`, { cause: error });
}
