/** A program that gets a token; what it is to do comes as JSON in its first argument. */
interface Job {
  readonly issuer: string;
  readonly clientId: string;
  readonly tokenFile: string;
  readonly login: "browser" | "never";
  readonly callbackPort: number;
  /** How far this program's clock is off. */
  readonly skewMs: number;
}

const { skewMs, ...job } = JSON.parse(process.argv[2] ?? "") as Job;
const now = Date.now.bind(Date);
Date.now = () => now() + skewMs;
// Loaded under that clock.
const { OidcAuthProvider } = await import("telemetry-service-client");
const provider = new OidcAuthProvider({ ...job, openBrowser: () => undefined });
const first = await provider.authorization();
const second = await provider.authorization();
console.log(first === second ? first : "two tokens");
