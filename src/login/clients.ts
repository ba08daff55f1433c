/** The two clients of the identity provider, by their ids. */

/** The web server: has a secret. */
export const webClientId = "telemetry-web";

/** The command line: has none, and is called back on a loopback port of its choice (RFC 8252 section 7.3). */
export const commandLineClientId = "telemetry-cli";

/** What people read on the login page. */
export const clientNames: Readonly<Record<string, string>> = {
  [webClientId]: "web server",
  [commandLineClientId]: "command line",
};
